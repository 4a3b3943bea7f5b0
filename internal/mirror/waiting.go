package mirror

// MaxWaiting bounds the keys in Mirror.Waiting, of 32 characters each, beside their
// positions: half of what a ConfigMap has room for.
const MaxWaiting = 10_000
