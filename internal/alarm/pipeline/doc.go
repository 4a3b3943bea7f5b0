// Package pipeline runs the way of an Event to the outbox: it takes over where
// the last leader stopped, matches what the feed brings, commits it with the
// feed's position in one transaction, and mirrors how far delivery has come into
// the cluster.
//
// What an alarm is, how a message is sent and where it is kept are the business
// of alarm, notify and ledger.
package pipeline
