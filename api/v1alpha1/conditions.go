package v1alpha1

// ConditionReady is True when the object does what its spec asks for. The reason of a
// False or Unknown Ready is one of the Reason constants. A suspended object has no such
// condition.
const ConditionReady = "Ready"

// ConditionDegraded is True when the object works, but not completely. For an alarm or
// receiver, a single message or Event failed within the last fifty minutes. For an
// AppService, a pod is unhealthy, the condition Stalled is True, or a container was in a
// crash loop within the last ten minutes. Another cause is a feature that the spec needs and
// the operator runs without.
const ConditionDegraded = "Degraded"

// ConditionDelivered of a receiver is True if it accepted the last message, and False if the
// last attempt failed. It is Unknown if no message was sent since the spec changed, or while a
// test message waits. A test message counts. The reason of False is one of the Ready condition.
const ConditionDelivered = "Delivered"

// Reasons of the Delivered condition of AlarmReceiver and ClusterAlarmReceiver, and of the
// Events about test messages.
const (
	// ReasonAccepted: the receiver accepted the last message.
	ReasonAccepted = "Accepted"
	// ReasonNothingSent: no message was sent to the receiver since its spec changed. Annotate
	// it with bongsu.io/send-test to send a test message.
	ReasonNothingSent = "NothingSent"
	// ReasonSendingTest: a test message waits. It is sent when the receiver is ready.
	ReasonSendingTest = "SendingTest"
	// ReasonAcceptedTest: the receiver accepted a test message. It is the reason of an Event.
	ReasonAcceptedTest = "AcceptedTest"
	// ReasonFailedTest: the receiver did not accept a test message. It is the reason of an
	// Event, and the message says what is wrong. The operator does not send the test again.
	ReasonFailedTest = "FailedTest"
)

// Reasons of the Ready condition of every kind.
const (
	// ReasonReady: the object works as its spec requires.
	ReasonReady = "Ready"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonPolicyMissing: the admission policies of the operator's version are not in force.
	// The operator does nothing for the object until an administrator installs them.
	ReasonPolicyMissing = "PolicyMissing"
	// ReasonUnchecked: the spec was written while an admission policy was missing, so the
	// permissions of its author were not checked. The operator does nothing for the object until
	// the spec is changed, which the policies check.
	ReasonUnchecked = "Unchecked"
	// ReasonReconcileError: the operator could not evaluate the object for the first time,
	// because a request failed. It retries. The message contains the error.
	ReasonReconcileError = "ReconcileError"
)

// Reasons of the Ready condition of Alarm and ClusterAlarm.
const (
	// ReasonInvalidExpression: a CEL expression of the alarm, or in the body of a webhook,
	// does not compile or is too expensive. The message names the field and the column.
	ReasonInvalidExpression = "InvalidExpression"
	// ReasonInvalidMatch: a label selector or a path of a field is not valid. Or an Alarm names a
	// kind or a resource without namespaces, or a ClusterAlarm with a namespaceSelector such a kind.
	ReasonInvalidMatch = "InvalidMatch"
	// ReasonInvalidGroup: spec.group.by contains an unknown key.
	ReasonInvalidGroup = "InvalidGroup"
	// ReasonInvalidMute: a window in spec.mute is not valid: its time zone is unknown, its
	// ranges overlap, or it is the same as another window.
	ReasonInvalidMute = "InvalidMute"
	// ReasonKindNotFound: the API server does not serve a resource in spec.changes or
	// spec.states. The alarm works as soon as it does.
	ReasonKindNotFound = "KindNotFound"
	// ReasonForbidden: the operator is not allowed to list and watch a resource in spec.changes
	// or spec.states. The message names the ClusterRole that an administrator must create.
	ReasonForbidden = "Forbidden"
	// ReasonUnavailable: a resource in spec.changes or spec.states cannot be read at the moment.
	// The operator retries it.
	ReasonUnavailable = "Unavailable"
	// ReasonReceiverNotFound: a receiver in spec.receivers does not exist, or is a ClusterAlarmReceiver
	// that does not allow the namespace of the Alarm. Nothing is sent to it before. Without any
	// receiver, the alarm is not in force.
	ReasonReceiverNotFound = "ReceiverNotFound"
	// ReasonReceiverNotReady: a receiver is not ready. Its status says why.
	ReasonReceiverNotReady = "ReceiverNotReady"
	// ReasonTooManyReceivers: a label can choose too many receivers. Those beyond the limit
	// are not chosen.
	ReasonTooManyReceivers = "TooManyReceivers"
)

// Reasons of the Ready condition of AlarmReceiver and ClusterAlarmReceiver.
const (
	// ReasonSecretNotFound: a Secret that the receiver names does not exist, or does not
	// contain the key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretForbidden: the operator lacks the permission to read a Secret that the receiver
	// names. It tries again each minute.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonInvalidSecret: the value in the Secret is not valid, for example not a URL.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonAddressNotAllowed: AlarmReceivers cannot use the host or its address, or the
	// host does not exist. The operator does not show which, because names can be internal.
	ReasonAddressNotAllowed = "AddressNotAllowed"
	// ReasonDeliveryFailing: the last attempt failed. The operator retries it. If someone
	// must correct the receiver, the pauses are up to five minutes long. A change or an
	// annotation of the receiver or its Secret ends a pause.
	ReasonDeliveryFailing = "DeliveryFailing"
	// ReasonMessageSetAside: the receiver accepts messages, but not some of them. The operator
	// retries these every 5 minutes to 1 hour. Only messages about the same objects wait.
	ReasonMessageSetAside = "MessageSetAside"
)

// Reasons of the Ready condition of SecretShare and ClusterSecretShare, and of problems in
// a namespace.
const (
	// ReasonCopying: copies are being written or removed.
	ReasonCopying = "Copying"
	// ReasonInvalidSelector: a label selector in spec.source or spec.targets is not valid.
	// No copy is written.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSourceNotFound: a Secret that spec.source names does not exist, or does not
	// match the other fields of spec.source. No copy of it exists until it does.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceDeleted: a source was deleted a moment ago. Its copies stay for
	// spec.sourceDeletionGraceSeconds, until it is created again.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonSourceUnreadable: the sources could not be read. No copy is written until a
	// retry succeeds.
	ReasonSourceUnreadable = "SourceUnreadable"
	// ReasonSourceRefused: spec.source selects a Secret that is itself a copy, or has a
	// type that is never copied. Or spec.copyName gives its copy an invalid or taken name.
	ReasonSourceRefused = "SourceRefused"
	// ReasonKeyNotFound: a source does not contain a key in spec.keys, or its copy would
	// lack a key that its type requires. Its copies stay as they are.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonInvalidTarget: spec.targets names the namespace of the source or of the operator.
	// No copy is written.
	ReasonInvalidTarget = "InvalidTarget"
	// ReasonTargetNotFound: a namespace that spec.targets names does not exist, or does not match
	// the other fields of spec.targets. The other namespaces get their copies.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonSourceRecreated: the namespace of the source was deleted and created again, maybe
	// by another owner. No copy is written until the spec is written again. A
	// SecretShareGrant has this reason for a namespace in spec.from.
	ReasonSourceRecreated = "SourceRecreated"
	// ReasonNotGranted: the namespace has no SecretShareGrant for this SecretShare, or
	// none that allows the name of the Secret.
	ReasonNotGranted = "NotGranted"
	// ReasonConflict: a Secret of the same name exists and does not belong to the share.
	// It stays as it is. The copy is written when that Secret is deleted.
	ReasonConflict = "Conflict"
	// ReasonCopyFailed: the API server refused to write or remove a copy. The operator
	// retries.
	ReasonCopyFailed = "CopyFailed"
	// ReasonRemovingCopies: copies are being deleted or released. It is the reason of an Event,
	// whose message says how many and why.
	ReasonRemovingCopies = "RemovingCopies"
)

// Reasons of the Ready condition of SecretShareGrant that SecretShare does not have.
const (
	// ReasonUnused: no SecretShare wants to write a copy that the grant allows.
	ReasonUnused = "Unused"
)

// Reasons of the Degraded condition of alarms and receivers, and of Events that report a
// single occurrence.
const (
	// ReasonMessageDropped: messages were given up, because the receiver refused them or
	// they reached their maximum age.
	ReasonMessageDropped = "MessageDropped"
	// ReasonExpressionFailed: an expression failed for an Event, for example because it
	// took too long. A condition that failed did not match. The value of a template's
	// expression that failed was replaced by the error, or by null in the body of a webhook.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonOverBudget: as a reason of Degraded, the Alarms of the namespace, or the
	// ClusterAlarms for the Events of a namespace, are too expensive together. They were not
	// evaluated for some Events. Or messages were dropped, because those that wait use up their
	// share of the outbox. Or the outbox has no space for states, or for the last known values of
	// objects. As a reason of Ready, this object and older ones of its kind would need too much
	// memory. The alarm is not in force, the messages of the receiver wait, and the copies of the
	// share stay as they are.
	ReasonOverBudget = "OverBudget"
	// ReasonObjectUnreadable: the API server did not return an object that the alarm needs.
	// Some Events wait for it, or were not sent.
	ReasonObjectUnreadable = "ObjectUnreadable"
	// ReasonTooManyGroups: the alarm, or all Alarms of its namespace, have too many open
	// groups, or the groups and thresholds use up their space. Further occurrences share one
	// group. If there is no space for that either, they are in no group, and a threshold
	// counts only occurrences that are read together.
	ReasonTooManyGroups = "TooManyGroups"
	// ReasonNoReceiver: a namespace has a value of the label in spec.receiversFrom that chooses no
	// receiver. The default receiver gets its messages.
	ReasonNoReceiver = "NoReceiver"
	// ReasonThreadLost: the message of a group was deleted, or cannot be edited. The
	// group's message was posted again.
	ReasonThreadLost = "ThreadLost"
	// ReasonRecovered: the object is ready again after a Warning.
	ReasonRecovered = "Recovered"
	// ReasonEventPositionReset: the position in the Events does not belong to this cluster's
	// history, for example after an etcd restore. Reading continues from now.
	ReasonEventPositionReset = "EventPositionReset"
	// ReasonHeartbeat: the operator works. It emits this Event regularly if it is configured to.
	ReasonHeartbeat = "Heartbeat"
	// ReasonOutboxReset: the file of the outbox was damaged and was set aside. Delivery
	// continues from the checkpoint in the cluster.
	ReasonOutboxReset = "OutboxReset"
)

// Conditions of Jupyter and AppService besides Ready. kstatus evaluates Ready and Stalled.
const (
	// ConditionProgressing is True while the operator or the cluster works towards the
	// spec.
	ConditionProgressing = "Progressing"
	// ConditionStalled is True when the object does not run, and waiting is not expected to
	// help, or a deadline has passed.
	ConditionStalled = "Stalled"
	// ConditionPodScheduled is True when the pod has a node.
	ConditionPodScheduled = "PodScheduled"
	// ConditionStorageReady is True when the claim is bound, or no storage is requested.
	ConditionStorageReady = "StorageReady"
	// ConditionAccessReady is True when the Service and, if requested, the Ingress match
	// the spec.
	ConditionAccessReady = "AccessReady"
	// ConditionServerResponding is True when the server answered the last probe. It is
	// Unknown when the server is not probed.
	ConditionServerResponding = "ServerResponding"
	// ConditionIdle is True when the notebook is not used. It is Unknown when the activity
	// is unknown.
	ConditionIdle = "Idle"
	// ConditionSuspended is True when spec.suspend is true.
	ConditionSuspended = "Suspended"
	// ConditionUpdatePending is True when the running pod does not have the latest spec. A
	// restart applies it.
	ConditionUpdatePending = "UpdatePending"
)

// Further reasons of Jupyter's conditions.
const (
	// ReasonStarting: the notebook is being started.
	ReasonStarting = "Starting"
	// ReasonRecovering: a failure is no longer seen, and the notebook is being started.
	ReasonRecovering = "Recovering"
	// ReasonStopping: the notebook is being stopped.
	ReasonStopping = "Stopping"
	// ReasonCulled: the notebook was idle for spec.culling.idleTimeoutSeconds. To start it
	// again, set spec.suspend to false.
	ReasonCulled = "Culled"
	// ReasonCulledFailing: the notebook failed for spec.culling.failingSeconds. To start it
	// again, correct the cause in status.lastFailure, and set spec.suspend to false.
	ReasonCulledFailing = "CulledFailing"
	// ReasonNotSuspended: spec.suspend is false.
	ReasonNotSuspended = "NotSuspended"
	// ReasonNotStalled: nothing blocks the object.
	ReasonNotStalled = "NotStalled"
	// ReasonNoPod: the pod does not exist.
	ReasonNoPod = "NoPod"
	// ReasonScheduled: the pod has a node.
	ReasonScheduled = "Scheduled"
	// ReasonBound: the claim has its volume.
	ReasonBound = "Bound"
	// ReasonNotRequested: the spec does not request it.
	ReasonNotRequested = "NotRequested"
	// ReasonUpToDate: the pod has the latest spec.
	ReasonUpToDate = "UpToDate"
	// ReasonRestartNeeded: the pod has an earlier spec. A restart applies the latest.
	ReasonRestartNeeded = "RestartNeeded"
	// ReasonReplacing: the pod is being replaced by one with the latest spec.
	ReasonReplacing = "Replacing"
)

// Reasons of Jupyter's conditions Idle and ServerResponding, and of the Events about
// culling.
const (
	// ReasonResponding: the server answered the last probe.
	ReasonResponding = "Responding"
	// ReasonActive: the notebook was used recently.
	ReasonActive = "Active"
	// ReasonKernelBusy: the notebook was not used for long, but one of its kernels is busy.
	ReasonKernelBusy = "KernelBusy"
	// ReasonTerminalOpen: the notebook was not used for long, but an open terminal still
	// counts as use.
	ReasonTerminalOpen = "TerminalOpen"
	// ReasonNoActivity: the notebook is idle. It is stopped at status.cullTime unless it
	// is used before.
	ReasonNoActivity = "NoActivity"
	// ReasonProbeFailing: the server does not report its activity. The notebook is not
	// culled.
	ReasonProbeFailing = "ProbeFailing"
	// ReasonNotProbed: the server is not probed, or has not answered yet. Either spec.culling is
	// not set, or the notebook does not run, or it has just started.
	ReasonNotProbed = "NotProbed"
	// ReasonIdleWarning: the notebook will be culled soon. Only Events have this reason.
	ReasonIdleWarning = "IdleWarning"
	// ReasonFailingWarning: the notebook will be stopped soon because it fails. Only Events
	// have this reason.
	ReasonFailingWarning = "FailingWarning"
)

// Conditions of AppService that Jupyter does not have.
const (
	// ConditionAvailable is True when enough pods are available. It is that of the
	// Deployment.
	ConditionAvailable = "Available"
	// ConditionHealthy is False when the health check of a pod fails. It is Unknown when
	// the health of some pods is unknown, or there is no check.
	ConditionHealthy = "Healthy"
	// ConditionEvictionBlocked exists while remedy Restart needs to evict an unhealthy pod and
	// the API server refuses it. It is then True.
	ConditionEvictionBlocked = "EvictionBlocked"
	// ConditionBackupSucceeded exists once the AppService is being deleted. It is True
	// when the backup succeeded, and Unknown while it runs.
	ConditionBackupSucceeded = "BackupSucceeded"
)

// Further reasons of AppService's conditions, and of its Events.
const (
	// ReasonRollingOut: pods are being replaced, or their number changes.
	ReasonRollingOut = "RollingOut"
	// ReasonPodsNotReady: some pods are not ready yet.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonHealthy: the health check of every pod succeeds.
	ReasonHealthy = "Healthy"
	// ReasonNotDegraded: all pods are ready, and none is unhealthy.
	ReasonNotDegraded = "NotDegraded"
	// ReasonNotChecked: no pod has been checked yet.
	ReasonNotChecked = "NotChecked"
	// ReasonHealthCheckFailed: the health check failed as many times in a row as
	// failureThreshold says.
	ReasonHealthCheckFailed = "HealthCheckFailed"
	// ReasonHealthCheckRecovered: the health check succeeds again.
	ReasonHealthCheckRecovered = "HealthCheckRecovered"
	// ReasonHealthCheckUnreachable: the check could not run as many times in a row as
	// failureThreshold says. The health of the pod is unknown.
	ReasonHealthCheckUnreachable = "HealthCheckUnreachable"
	// ReasonExecForbidden: the operator is not allowed to run the command of the health check or
	// backup. Or it is not allowed to check the pod through the API server.
	ReasonExecForbidden = "ExecForbidden"
	// ReasonFeatureDisabled: the spec needs a feature that the operator runs without. The
	// message names it. The operator makes no such health check or backup.
	ReasonFeatureDisabled = "FeatureDisabled"
	// ReasonExecLeaked: a command exceeded its time and could not be stopped. No other
	// command runs in the pod until it ends.
	ReasonExecLeaked = "ExecLeaked"
	// ReasonRestartedUnhealthyPod: an unhealthy pod was evicted, and a new pod replaces it.
	ReasonRestartedUnhealthyPod = "RestartedUnhealthyPod"
	// ReasonBlockedByDisruptionBudget: a PodDisruptionBudget does not allow the eviction of an
	// unhealthy pod. The message names the budget. The operator evicts the pod when the budget
	// allows it.
	ReasonBlockedByDisruptionBudget = "BlockedByDisruptionBudget"
	// ReasonRevertedEdit: another client edited an object of the app or notebook, such as its
	// Deployment. The operator set it back to what the spec says. Only Events have this reason.
	ReasonRevertedEdit = "RevertedEdit"
	// ReasonScalingReplicaSet: the number of pods changes.
	ReasonScalingReplicaSet = "ScalingReplicaSet"
	// ReasonBackupStarted: the backup runs. Nothing is removed until it has ended.
	ReasonBackupStarted = "BackupStarted"
	// ReasonBackupSucceeded: the backup succeeded.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupFailed: the backup failed. The deletion waits.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupAbandoned: the deletion continues without a backup.
	ReasonBackupAbandoned = "BackupAbandoned"
	// ReasonBackupSkipped: there is nothing to back up, or the namespace is being deleted.
	ReasonBackupSkipped = "BackupSkipped"
	// ReasonCleanupComplete: all objects of the AppService are removed.
	ReasonCleanupComplete = "CleanupComplete"
)
