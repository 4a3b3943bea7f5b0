// Package dryrun tests alarms before they are applied: which Events of a cluster they
// match, which messages result, and whether a receiver accepts one. It compiles, matches
// and renders with the code of the operator, reads with the permissions of the caller,
// and changes nothing in the cluster.
package dryrun
