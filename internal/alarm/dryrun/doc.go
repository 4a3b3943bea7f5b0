// Package rehearse tries alarms out before they are applied: which of a cluster's Events
// they match, what is sent of them, and whether a receiver takes it. It compiles,
// matches and renders with what the operator is made of, reads with the rights of
// whoever asks, and changes nothing in the cluster.
package dryrun
