package options

// Names of the objects that the operator creates in its namespace, besides the checkpoint.
const (
	// LeaseName is the name of the Lease of the leader.
	LeaseName = "bongsu"
	// DefaultsName is the name of a ConfigMap that lists the objects created at the first
	// start. The operator does not create or change these again.
	DefaultsName = "bongsu-defaults"
)
