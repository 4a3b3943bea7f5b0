package options

// Account is the name of the operator's service account in every installation.
const Account = "bongsu"

// UserName is the name of the operator's service account for the API server.
func (o *Options) UserName() string {
	return "system:serviceaccount:" + o.Namespace + ":" + Account
}

// Names of the objects that the operator creates in its namespace, besides the checkpoint.
const (
	// StandbyLeaseName is the name of the Lease through which a leader that cannot commit
	// asks for a standby that can.
	StandbyLeaseName = "bongsu-standby"
	// LeaseName is the name of the Lease of the leader.
	LeaseName = "bongsu"
	// DefaultsName is the name of a ConfigMap that lists the objects created at the first
	// start. The operator does not create or change these again.
	DefaultsName = "bongsu-defaults"
	// PoliciesName is the name of the record that a Gate of package policies keeps.
	PoliciesName = "bongsu-policies"
)

const (
	// LocalLabel is the label of the operator's namespace in a cluster of `bongsu local`, whose
	// operator does not run in a pod.
	LocalLabel = "bongsu.io/local"
	// LocalFlag is a hidden flag of the operator. `bongsu local` sets it to its own version. When the
	// operator is at work, it writes one byte to the pipe LocalReadyFD. It stops when its standard
	// input ends.
	LocalFlag = "local"

	LocalReadyFD = 3
)
