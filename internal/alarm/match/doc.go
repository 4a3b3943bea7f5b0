// Package alarm decides which Events matter to whom, and what is said of them:
// it compiles alarms, finds through an index those that an occurrence matches,
// and renders the message.
//
// It is pure: no Kubernetes client, no clock, no goroutine. What it needs to
// know of the cluster it is handed, so that a table test reaches every decision
// and a replay of the same Events gives the same messages.
package match
