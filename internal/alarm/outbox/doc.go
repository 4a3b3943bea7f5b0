// Package ledger is the durable memory of delivery: the outbox of what is still
// to be sent, the feed's position, the last count of each Event and what thresholds
// remember, in one embedded SQLite file, so that what was matched and how far the
// feed was read change in one transaction.
//
// It knows nothing of Kubernetes or of receivers: a receiver is a string, a
// message is bytes. It decides nothing about retries, rates or ages, and holds
// no credential: what it stores is what was matched and what was rendered of it.
//
// The life of an [Entry]: [Ledger.Commit] stores it together with the feed's
// position; [Ledger.Freeze] binds the oldest entries of a receiver to one
// message, before it is first sent; [Ledger.Settle] removes message and entries
// once it was delivered or given up, and keeps for a day what a digest told of.
// Between the last two a crash leaves the message as it was, to be sent again with the
// same body and the same key. [Look] shows all of it to others, beside the one process
// that writes.
package outbox
