package options

// Names of objects that the operator makes for itself in its namespace, besides the
// checkpoint.
const (
	// LeaseName is of the Lease that says which replica leads.
	LeaseName = "bongsu"
	// DefaultsName is of the ConfigMap that remembers what was created at the first
	// start: what an administrator then deletes or changes stays so.
	DefaultsName = "bongsu-defaults"
)
