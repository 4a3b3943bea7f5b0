// Package e2e proves the operator where it is meant to be: as pods of its own image,
// installed as users install it, with the rights of its own service account, on a real
// kubelet that runs real containers. `make e2e-node` runs it, on Linux as root.
//
// It has one cluster, and its parts follow each other: what takes its time (a node that
// is found dead, a notebook that is idle) begins in one and is looked at in a later one.
package e2e
