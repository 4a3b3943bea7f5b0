package notify

import "time"

// Receiver is a receiver as the Dispatcher needs it.
type Receiver struct {
	// Key is "AlarmReceiver/NAMESPACE/NAME" or "ClusterAlarmReceiver//NAME".
	Key string
	// Fingerprint is a digest of all that the receiver was built from, Secrets
	// included. Configure with the fingerprint that is in force does nothing, so
	// that a reconcile for another cause does not unpark. Empty is always a change.
	Fingerprint string
	// Notifier speaks to the receiver.
	Notifier Notifier
	// Limit is how often it may be spoken to; the zero Limit is none.
	Limit Limit
}

// Limit is a rate limit. What it holds back is sent as one digest.
type Limit struct {
	// Key names the limit: receivers with the same key share it. It must not
	// reveal a Secret's value.
	Key string
	// Every is the least time between two messages; 0 is no limit.
	Every time.Duration
}
