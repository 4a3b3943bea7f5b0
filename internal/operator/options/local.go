package options

// Hidden flags of the operator for local clusters.
const (
	// LocalFlag is set by `bongsu local`, to its own version. When the operator is at work,
	// it writes one byte to the pipe LocalReadyFD. It stops when its standard input ends.
	LocalFlag = "local"
	// SimulatedPodsFlag refuses connections to pods. Another machine on the network can have
	// the address of a simulated pod, and would receive tokens.
	SimulatedPodsFlag = "simulated-pods"

	LocalReadyFD = 3
)
