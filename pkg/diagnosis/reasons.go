package diagnosis

// Reasons why a workload does not run: of the Ready and Stalled conditions of
// Jupyter, of status.lastFailure and of its Events. Those that Kubernetes has a name
// for bear that name.
const (
	// ReasonInvalidSpec: a field of the spec cannot be used; the message names it.
	// What runs stays as it is.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonResourceConflict: an object of the name that is needed is somebody
	// else's. It is left as it is.
	ReasonResourceConflict = "ResourceConflict"
	// ReasonAdmissionDenied: an admission policy or webhook of the cluster refused the
	// pod or another object that is needed.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace has no room.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonFailedCreate: the pod or another object that is needed could not be
	// created, for any other reason.
	ReasonFailedCreate = "FailedCreate"
	// ReasonProvisioningFailed: no volume could be made for a claim.
	ReasonProvisioningFailed = "ProvisioningFailed"
	// ReasonClaimPending: a claim waits for a volume.
	ReasonClaimPending = "ClaimPending"
	// ReasonClaimNotFound: a claim that the pod mounts does not exist.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonClaimLost: the volume of a claim is gone.
	ReasonClaimLost = "ClaimLost"
	// ReasonFailedAttachVolume: a volume cannot be attached to the pod's node.
	ReasonFailedAttachVolume = "FailedAttachVolume"
	// ReasonFailedMount: a volume cannot be mounted.
	ReasonFailedMount = "FailedMount"
	// ReasonFailedScheduling: no node can take the pod.
	ReasonFailedScheduling = "FailedScheduling"
	// ReasonNodeLost: the pod's node does not answer.
	ReasonNodeLost = "NodeLost"
	// ReasonInvalidImageName: the image's name cannot be read.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonErrImagePull: an image could not be pulled.
	ReasonErrImagePull = "ErrImagePull"
	// ReasonImagePullBackOff: an image could not be pulled again and again.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonErrImageNeverPull: the node does not have the image and may not pull it.
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	// ReasonCreateContainerConfigError: what the container refers to, such as a key of
	// a ConfigMap, is not there.
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	// ReasonCreateContainerError: the container could not be created.
	ReasonCreateContainerError = "CreateContainerError"
	// ReasonRunContainerError: the container's command could not be run.
	ReasonRunContainerError = "RunContainerError"
	// ReasonOOMKilled: the container used more memory than it may.
	ReasonOOMKilled = "OOMKilled"
	// ReasonCrashLoopBackOff: the container keeps ending.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonError: the container ended with an exit code other than 0.
	ReasonError = "Error"
	// ReasonEvicted: the node ran low on something and ended the pod.
	ReasonEvicted = "Evicted"
	// ReasonUnhealthy: a probe fails.
	ReasonUnhealthy = "Unhealthy"
	// ReasonProgressDeadlineExceeded: the start takes longer than it was given, and no
	// cause is known.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
