// Package share decides what the copies of Secrets look like and whose a Secret
// is: what is copied at all, what a copy holds, and what has to be done about the
// Secret that stands in its place.
//
// It is pure: no Kubernetes client, no clock. It must never put a value of a
// Secret into an error or a message.
package share
