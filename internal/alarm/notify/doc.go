// Package notify takes messages out of the outbox and to their receivers: one
// queue a receiver, one request in flight, rate limits with a digest for what is
// beyond them, retries with back-off, and parking where retrying cannot help.
//
// How a sink is spoken to is in the packages below it; they implement Notifier.
package notify
