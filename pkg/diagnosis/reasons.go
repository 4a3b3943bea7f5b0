package diagnosis

// Reasons why a workload does not run. Where Kubernetes has a name for a reason, it is
// used.
const (
	// ReasonInvalidSpec: a field of the spec is invalid. The message names the field. The
	// running workload is not changed.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonResourceConflict: an object with the required name belongs to another owner.
	// It is not changed.
	ReasonResourceConflict = "ResourceConflict"
	// ReasonAdmissionDenied: an admission policy, admission webhook or LimitRange
	// rejected the pod or another object.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonSecretNotFound: a Secret that the spec refers to does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonInvalidSecret: a Secret that the spec refers to lacks a key or has an invalid value.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace is exceeded.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonFailedCreate: the pod or another object could not be created for another
	// reason.
	ReasonFailedCreate = "FailedCreate"
	// ReasonFailedDelete: a controller could not delete a pod or a Job, for example an old pod of a rollout.
	ReasonFailedDelete = "FailedDelete"
	// ReasonDeploymentPaused: the Deployment is paused, so that its pods keep an older
	// template.
	ReasonDeploymentPaused = "DeploymentPaused"
	// ReasonProvisioningFailed: no volume could be provisioned for a claim.
	ReasonProvisioningFailed = "ProvisioningFailed"
	// ReasonClaimPending: a claim waits for a volume.
	ReasonClaimPending = "ClaimPending"
	// ReasonVolumeResizeFailed: the volume of a claim cannot get the size that the claim requests.
	ReasonVolumeResizeFailed = "VolumeResizeFailed"
	// ReasonFileSystemResizeFailed: a node cannot resize the file system of a volume.
	ReasonFileSystemResizeFailed = "FileSystemResizeFailed"
	// ReasonClaimNotFound: a claim that the pod mounts does not exist.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonClaimLost: the volume of a claim no longer exists.
	ReasonClaimLost = "ClaimLost"
	// ReasonFailedAttachVolume: a volume cannot be attached to the pod's node.
	ReasonFailedAttachVolume = "FailedAttachVolume"
	// ReasonFailedMount: a volume cannot be mounted.
	ReasonFailedMount = "FailedMount"
	// ReasonFailedScheduling: no node can take the pod.
	ReasonFailedScheduling = "FailedScheduling"
	// ReasonPreempted: the pod was removed to make room for a pod of a higher priority.
	ReasonPreempted = "Preempted"
	// ReasonFailedCreatePodSandBox: the node cannot set up the pod's network or sandbox.
	ReasonFailedCreatePodSandBox = "FailedCreatePodSandBox"
	// ReasonFailedPrepareDynamicResources: the node cannot prepare the devices that the
	// pod's ResourceClaims allocate.
	ReasonFailedPrepareDynamicResources = "FailedPrepareDynamicResources"
	// ReasonNodeLost: the pod's node does not respond, or is not ready.
	ReasonNodeLost = "NodeLost"
	// ReasonNodeTainted: a node still has a taint that a component should have removed.
	ReasonNodeTainted = "NodeTainted"
	// ReasonFinalizersRemaining: the deletion of the pod waits for its finalizers.
	ReasonFinalizersRemaining = "FinalizersRemaining"
	// ReasonTerminating: the pod still exists long after its grace period.
	ReasonTerminating = "Terminating"
	// ReasonInvalidImageName: the image name is invalid.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonErrImagePull: an image could not be pulled.
	ReasonErrImagePull = "ErrImagePull"
	// ReasonImagePullBackOff: the image could not be pulled, and the kubelet waits before
	// it retries.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonErrImageNeverPull: the node does not have the image, and imagePullPolicy is
	// Never.
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	// ReasonCreateContainerConfigError: an object or key that the container refers to
	// does not exist, or its security context does not fit its image.
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	// ReasonCreateContainerError: the container could not be created.
	ReasonCreateContainerError = "CreateContainerError"
	// ReasonRunContainerError: the command of the container could not be run.
	ReasonRunContainerError = "RunContainerError"
	// ReasonOOMKilled: the container ran out of memory.
	ReasonOOMKilled = "OOMKilled"
	// ReasonCrashLoopBackOff: the container keeps ending, and the kubelet waits before it
	// restarts it.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonError: the container ended with an exit code other than 0.
	ReasonError = "Error"
	// ReasonEvicted: the node ran low on a resource and evicted the pod, or the pod used more
	// than its limit of local disk space.
	ReasonEvicted = "Evicted"
	// ReasonNodeShutdown: the pod ended, or was not started, because its node shuts down.
	ReasonNodeShutdown = "NodeShutdown"
	// ReasonUnexpectedAdmissionError: the node could not allocate a device, CPUs or memory
	// for the pod.
	ReasonUnexpectedAdmissionError = "UnexpectedAdmissionError"
	// ReasonPodRejected: the node did not admit the pod for another reason, which the
	// message contains.
	ReasonPodRejected = "PodRejected"
	// ReasonTaintManagerEviction: the pod was deleted because its node has a taint that the
	// pod does not tolerate.
	ReasonTaintManagerEviction = "TaintManagerEviction"
	// ReasonContainerStillRunning: the main container of a pod has ended, but another one runs on, so
	// that the pod does not complete.
	ReasonContainerStillRunning = "ContainerStillRunning"
	// ReasonPodInitializing: an init container has not ended yet.
	ReasonPodInitializing = "PodInitializing"
	// ReasonUnhealthy: a probe of the container fails.
	ReasonUnhealthy = "Unhealthy"
	// ReasonReadinessGatesNotReady: the containers of the pod are ready, but a readiness gate of the
	// pod is not. The kubelet uses the same reason.
	ReasonReadinessGatesNotReady = "ReadinessGatesNotReady"
	// ReasonProgressDeadlineExceeded: the workload did not start in time, and no cause is
	// known.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
