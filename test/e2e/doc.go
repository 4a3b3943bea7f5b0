// Package e2e tests the operator in its real environment. It runs as pods of its own image,
// with the permissions of its service account, on a real kubelet. It is installed as users
// install it. `make e2e-node` runs the test, on Linux as root.
//
// The parts of the test run in order in one cluster. Slow changes, such as a node that
// becomes NotReady, start in one part and are checked in a later one.
package e2e
