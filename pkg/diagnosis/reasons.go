package diagnosis

// Reasons for a workload that does not run. They are in the conditions Ready and Stalled,
// in status.lastFailure and in Events. Kubernetes' own reasons are used where they exist.
const (
	// ReasonInvalidSpec: a field of the spec is not valid. The message names it. What runs
	// stays as it is.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonResourceConflict: an object with the required name exists and does not belong
	// to the workload. It stays as it is.
	ReasonResourceConflict = "ResourceConflict"
	// ReasonAdmissionDenied: an admission policy or webhook of the cluster refused the pod
	// or another required object.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace is exhausted.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonFailedCreate: the pod or another required object could not be created, for
	// another reason.
	ReasonFailedCreate = "FailedCreate"
	// ReasonProvisioningFailed: no volume could be created for a claim.
	ReasonProvisioningFailed = "ProvisioningFailed"
	// ReasonClaimPending: a claim waits for a volume.
	ReasonClaimPending = "ClaimPending"
	// ReasonClaimNotFound: a claim that the pod mounts does not exist.
	ReasonClaimNotFound = "ClaimNotFound"
	// ReasonClaimLost: the volume of a claim no longer exists.
	ReasonClaimLost = "ClaimLost"
	// ReasonFailedAttachVolume: a volume cannot be attached to the pod's node.
	ReasonFailedAttachVolume = "FailedAttachVolume"
	// ReasonFailedMount: a volume cannot be mounted.
	ReasonFailedMount = "FailedMount"
	// ReasonFailedScheduling: no node is suitable for the pod.
	ReasonFailedScheduling = "FailedScheduling"
	// ReasonNodeLost: the pod's node does not respond.
	ReasonNodeLost = "NodeLost"
	// ReasonInvalidImageName: the name of the image is not valid.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonErrImagePull: an image could not be pulled.
	ReasonErrImagePull = "ErrImagePull"
	// ReasonImagePullBackOff: an image could not be pulled several times in a row.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonErrImageNeverPull: the node does not have the image, and its pull policy is
	// Never.
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	// ReasonCreateContainerConfigError: the container refers to something that does not
	// exist, for example a key of a ConfigMap.
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	// ReasonCreateContainerError: the container could not be created.
	ReasonCreateContainerError = "CreateContainerError"
	// ReasonRunContainerError: the command of the container could not be run.
	ReasonRunContainerError = "RunContainerError"
	// ReasonOOMKilled: the container used more memory than its limit.
	ReasonOOMKilled = "OOMKilled"
	// ReasonCrashLoopBackOff: the container exits repeatedly.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonError: the container exited with a code other than 0.
	ReasonError = "Error"
	// ReasonEvicted: the node ran out of a resource and evicted the pod.
	ReasonEvicted = "Evicted"
	// ReasonUnhealthy: a probe fails.
	ReasonUnhealthy = "Unhealthy"
	// ReasonProgressDeadlineExceeded: the start takes longer than its deadline, and no cause
	// is known.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
