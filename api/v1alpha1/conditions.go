package v1alpha1

// ConditionReady is True when the object does what its spec asks for. The
// reason of a False or Unknown Ready is one of the Reason constants.
const ConditionReady = "Ready"

// ConditionDegraded is True when something went wrong lately with a single message
// or Event while the object as such is in force: an expression failed, a message
// was dropped. Reason and message say what. It goes fifty minutes after the last.
const ConditionDegraded = "Degraded"

// Reasons of the Ready condition of every kind.
const (
	// ReasonReady: the object is in force.
	ReasonReady = "Ready"
	// ReasonSuspended: spec.suspend is true; nothing is done for the object.
	ReasonSuspended = "Suspended"
)

// Reasons of the Ready condition of Alarm and ClusterAlarm.
const (
	// ReasonInvalidExpression: a CEL expression of match or message does not
	// compile, or could cost too much. The message names the field and column.
	ReasonInvalidExpression = "InvalidExpression"
	// ReasonInvalidMatch: a label selector cannot be used.
	ReasonInvalidMatch = "InvalidMatch"
	// ReasonReceiverNotFound: a receiver that spec.receivers names does not
	// exist. What matches meanwhile waits for it, up to the delivery's maximum age.
	ReasonReceiverNotFound = "ReceiverNotFound"
	// ReasonNotAllowed: a ClusterAlarmReceiver does not allow the Alarm's namespace.
	ReasonNotAllowed = "NotAllowed"
	// ReasonReceiverNotReady: a receiver exists but is not Ready; see its status.
	ReasonReceiverNotReady = "ReceiverNotReady"
)

// Reasons of the Ready condition of AlarmReceiver and ClusterAlarmReceiver.
const (
	// ReasonSecretNotFound: a Secret that the receiver names does not exist, or
	// lacks the key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonInvalidSecret: the Secret's value is not what is needed, for example
	// no URL.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonAddressNotAllowed: the address resolves to a range that namespaced
	// receivers may not reach.
	ReasonAddressNotAllowed = "AddressNotAllowed"
	// ReasonDeliveryFailing: the last attempt failed; it is being retried, or,
	// where retrying cannot help, waits for the receiver or its Secret to change.
	ReasonDeliveryFailing = "DeliveryFailing"
)

// Reasons of the Ready condition of SecretShare and ClusterSecretShare, and of what
// is amiss in a namespace.
const (
	// ReasonCopying: copies are being written or removed.
	ReasonCopying = "Copying"
	// ReasonInvalidSelector: a label selector of spec.source or spec.targets cannot
	// be used.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSourceNotFound: no Secret is what spec.source selects. There are no
	// copies until there is one.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceUnreadable: the sources could not be read; the copies stay as they
	// are and it is tried again.
	ReasonSourceUnreadable = "SourceUnreadable"
	// ReasonSourceRefused: a Secret that spec.source selects is of a type that is
	// never copied, or is a copy itself.
	ReasonSourceRefused = "SourceRefused"
	// ReasonKeyNotFound: a source lacks a key that spec.keys names, or its copy would
	// lack one that its type needs. Copies that there are stay as they are.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonInvalidTarget: spec.targets names the source's own namespace.
	ReasonInvalidTarget = "InvalidTarget"
	// ReasonNotGranted: the namespace has no SecretShareGrant for this one, or none
	// for a Secret of this name.
	ReasonNotGranted = "NotGranted"
	// ReasonConflict: a Secret of the same name is somebody else's. It is left as it
	// is; the copy is written when it is gone.
	ReasonConflict = "Conflict"
	// ReasonCopyFailed: the API server refused to write or to remove a copy; it is
	// tried again.
	ReasonCopyFailed = "CopyFailed"
)

// Reasons of the Degraded condition of alarms and receivers, and of Events that tell
// of something that happened rather than of a state.
const (
	// ReasonMessageDropped: messages were given up: refused by the receiver, or
	// older than the maximum age.
	ReasonMessageDropped = "MessageDropped"
	// ReasonExpressionFailed: an expression of the alarm failed for an Event, for
	// example because it took too long. If it was a condition, its entry did not match
	// that Event; if it was of the message, the error stands in its place there.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonOverBudget: the Alarms of the namespace cost too much together to match;
	// some Events were not looked at for them.
	ReasonOverBudget = "OverBudget"
	// ReasonRecovered: the object is Ready again after a Warning.
	ReasonRecovered = "Recovered"
	// ReasonFeedReset: the feed's position was not of this cluster's history (an
	// etcd restore, a new cluster) and was set anew.
	ReasonFeedReset = "FeedReset"
	// ReasonLedgerReset: the ledger's file could not be read and was set aside;
	// delivery resumed from the mirror in the cluster.
	ReasonLedgerReset = "LedgerReset"
)
