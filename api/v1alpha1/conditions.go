package v1alpha1

// ConditionReady is True when the object does what its spec asks for. The
// reason of a False or Unknown Ready is one of the Reason constants.
const ConditionReady = "Ready"

// ConditionDegraded is True when something is wrong while the object as such is in
// force. Of alarms and receivers: something went wrong lately with a single message or
// Event, an expression failed, a message was dropped, a thread was lost; it goes fifty
// minutes after the last. Of an AppService: a pod is unhealthy, or it is Stalled. Reason and message say
// what.
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
	// ReasonInvalidGroup: spec.group.by has a key that there is not.
	ReasonInvalidGroup = "InvalidGroup"
	// ReasonInvalidMute: a window of spec.mute cannot be used: there is no such time
	// zone, or it says the same twice.
	ReasonInvalidMute = "InvalidMute"
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
	// be used. No copy is written.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSourceNotFound: no Secret is what spec.source selects. There are no
	// copies until there is one.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceUnreadable: the sources could not be read. No copy is written until
	// a retry succeeds.
	ReasonSourceUnreadable = "SourceUnreadable"
	// ReasonSourceRefused: a Secret that spec.source selects is of a type that is
	// never copied, or is a copy itself.
	ReasonSourceRefused = "SourceRefused"
	// ReasonKeyNotFound: a source lacks a key that spec.keys names, or its copy would
	// lack one that its type needs. Its copies stay as they are.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonInvalidTarget: spec.targets names the source's own namespace. No copy is
	// written.
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
	// ReasonTooManyGroups: the alarm has more groups open than are kept apart; what is
	// beyond them is one group.
	ReasonTooManyGroups = "TooManyGroups"
	// ReasonThreadLost: the message of a group that a receiver goes on with was
	// deleted, or may not be edited; the group's message was posted anew.
	ReasonThreadLost = "ThreadLost"
	// ReasonRecovered: the object is Ready again after a Warning.
	ReasonRecovered = "Recovered"
	// ReasonFeedReset: the feed's position was not of this cluster's history (an
	// etcd restore, a new cluster) and was set anew.
	ReasonPositionReset = "PositionReset"
	// ReasonLedgerReset: the ledger's file could not be read and was set aside;
	// delivery resumed from the mirror in the cluster.
	ReasonOutboxReset = "OutboxReset"
)

// Conditions of Jupyter and AppService besides Ready. kstatus, and so kubectl's and the deploy
// tools' waiting, reads Ready and Stalled.
const (
	// ConditionProgressing is True while something is being brought about.
	ConditionProgressing = "Progressing"
	// ConditionStalled is True when it does not run and waiting alone is not expected
	// to help, or took longer than it was given.
	ConditionStalled = "Stalled"
	// ConditionPodScheduled is True when the pod has a node.
	ConditionPodScheduled = "PodScheduled"
	// ConditionStorageReady is True when the claim is bound, or none is asked for.
	ConditionStorageReady = "StorageReady"
	// ConditionAccessReady is True when the Service, and the Ingress if one is asked
	// for, is as it should be.
	ConditionAccessReady = "AccessReady"
	// ConditionServerResponding is True when the server in the pod answered the last
	// probe, Unknown when it is not asked.
	ConditionServerResponding = "ServerResponding"
	// ConditionIdle is True when nobody uses the notebook, Unknown when that cannot be
	// told.
	ConditionIdle = "Idle"
	// ConditionSuspended is True when spec.suspend is.
	ConditionSuspended = "Suspended"
	// ConditionUpdatePending is True when the pod that runs is older than what is asked
	// for, and will be replaced when it is restarted.
	ConditionUpdatePending = "UpdatePending"
)

// Further reasons of Jupyter's conditions.
const (
	// ReasonStarting: the notebook is being started.
	ReasonStarting = "Starting"
	// ReasonRecovering: what was in the way is gone, and the notebook is being started.
	ReasonRecovering = "Recovering"
	// ReasonStopping: the notebook is being stopped.
	ReasonStopping = "Stopping"
	// ReasonCulled: nobody used the notebook for spec.culling.idleTimeoutSeconds; set
	// spec.suspend to false to start it again.
	ReasonCulled = "Culled"
	// ReasonNotSuspended: spec.suspend is false.
	ReasonNotSuspended = "NotSuspended"
	// ReasonNotStalled: nothing is in the way.
	ReasonNotStalled = "NotStalled"
	// ReasonNoPod: there is no pod.
	ReasonNoPod = "NoPod"
	// ReasonScheduled: the pod has a node.
	ReasonScheduled = "Scheduled"
	// ReasonBound: the claim has its volume.
	ReasonBound = "Bound"
	// ReasonNotRequested: spec does not ask for it.
	ReasonNotRequested = "NotRequested"
	// ReasonUpToDate: the pod is what is asked for.
	ReasonUpToDate = "UpToDate"
	// ReasonRestartNeeded: the pod runs as it was asked for earlier, and is replaced
	// when it is restarted.
	ReasonRestartNeeded = "RestartNeeded"
	// ReasonReplacing: the pod is being replaced by one that is what is asked for.
	ReasonReplacing = "Replacing"
)

// Reasons of Jupyter's conditions Idle and ServerResponding, and of the Events that
// tell of culling.
const (
	// ReasonResponding: the server answered the last probe.
	ReasonResponding = "Responding"
	// ReasonActive: the notebook was used not long ago.
	ReasonActive = "Active"
	// ReasonKernelBusy: nobody used the notebook for long, but a kernel of it is still
	// at work.
	ReasonKernelBusy = "KernelBusy"
	// ReasonNoActivity: nobody uses the notebook; it is stopped at status.cullTime
	// unless somebody does until then.
	ReasonNoActivity = "NoActivity"
	// ReasonProbeFailing: the server does not tell whether it is used; the notebook is
	// not culled.
	ReasonProbeFailing = "ProbeFailing"
	// ReasonNotProbed: the server is not asked, or was not yet: there is no
	// spec.culling, or the notebook does not run.
	ReasonNotProbed = "NotProbed"
	// ReasonIdleWarning: the notebook will be culled soon. It stands in Events alone.
	ReasonIdleWarning = "IdleWarning"
)

// Conditions of AppService besides those that Jupyter has too.
const (
	// ConditionAvailable is True when enough pods are ready, as the Deployment counts.
	ConditionAvailable = "Available"
	// ConditionHealthy is False when the health check of a pod fails, Unknown when that
	// cannot be told of all, or there is no check.
	ConditionHealthy = "Healthy"
	// ConditionBackupSucceeded is there once the AppService is being deleted: True when
	// the backup succeeded, Unknown while it runs.
	ConditionBackupSucceeded = "BackupSucceeded"
)

// Further reasons of AppService's conditions, and of its Events.
const (
	// ReasonRollingOut: pods are being replaced, or their number changes.
	ReasonRollingOut = "RollingOut"
	// ReasonPodsNotReady: some pods are not ready yet.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonHealthy: the health check passes in every pod.
	ReasonHealthy = "Healthy"
	// ReasonNotDegraded: all pods are ready and none is unhealthy.
	ReasonNotDegraded = "NotDegraded"
	// ReasonNotChecked: no pod was checked yet.
	ReasonNotChecked = "NotChecked"
	// ReasonHealthCheckFailed: the health check failed as often in a row as its
	// failureThreshold says.
	ReasonHealthCheckFailed = "HealthCheckFailed"
	// ReasonHealthCheckRecovered: the health check passes again.
	ReasonHealthCheckRecovered = "HealthCheckRecovered"
	// ReasonHealthCheckUnreachable: the check could not be made, as often in a row as
	// its failureThreshold says; whether the app is healthy is not known.
	ReasonHealthCheckUnreachable = "HealthCheckUnreachable"
	// ReasonExecForbidden: the operator may not run commands in the pod.
	ReasonExecForbidden = "ExecForbidden"
	// ReasonExecLeaked: a command did not end in time and could not be ended; no other
	// is run in the pod until it has.
	ReasonExecLeaked = "ExecLeaked"
	// ReasonRestartedUnhealthyPod: an unhealthy pod was evicted, to be replaced.
	ReasonRestartedUnhealthyPod = "RestartedUnhealthyPod"
	// ReasonScalingReplicaSet: the number of pods changes.
	ReasonScalingReplicaSet = "ScalingReplicaSet"
	// ReasonBackupStarted: the backup runs; nothing is removed until it has ended.
	ReasonBackupStarted = "BackupStarted"
	// ReasonBackupSucceeded: the backup is done.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupFailed: the backup failed; the deletion waits.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupAbandoned: the deletion goes on without a backup.
	ReasonBackupAbandoned = "BackupAbandoned"
	// ReasonBackupSkipped: there is nothing to back up, or the namespace is being
	// deleted.
	ReasonBackupSkipped = "BackupSkipped"
	// ReasonCleanupComplete: what the AppService was made of is removed.
	ReasonCleanupComplete = "CleanupComplete"
)
