package options

// LocalFlag is a hidden flag: `bongsu local` starts the operator with it. The operator then
// refuses connections to pods, because they are simulated. When it is at work, it writes one
// byte to the file descriptor LocalReadyFD. It stops when its standard input ends.
const (
	LocalFlag    = "local"
	LocalReadyFD = 3
)
