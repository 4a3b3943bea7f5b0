// Package workload builds the objects that a Jupyter is made of, and confines what
// its author may ask of the pod.
//
// The operator creates these objects with its own rights, for an author who may have
// fewer. So a pod template is merged into a pod of ours, and the result is measured
// by the Pod Security Standard "restricted" and by rules of our own (confine.go):
// what could make the operator's rights, or another's service account, serve the
// author is refused, with the field named.
//
// It is pure: no Kubernetes client, no clock, no randomness. The same object always
// gives the same children, so that a settled one is never written again.
package workload
