package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// earlierOperation matches the error of a driver that works on the volume already. Not all drivers use the
// code Aborted for it.
var earlierOperation = rule{name: "operation-exists", problem: passing,
	text:    compile(`(?i)an operation with the given \S+ ID .* already exists`),
	message: operationRuns,
	advice:  administratorLater, late: administrator}

const operationRuns = "an earlier operation on the volume has not ended"

// provisioningRules match errors of a provisioner. The code of gRPC is all that is known of an
// error whose text is the driver's own. A text "permission denied" is no rule, because programs of
// the driver write it about files.
var provisioningRules = []rule{
	{name: "provisioner-forbidden", problem: lasting,
		text:    compile(`is forbidden: User "[^"]+" cannot (\w+) resource ("[^"]+")`),
		message: "the storage driver may not ${1} ${2} of the cluster",
		advice:  "ask the cluster's administrator to correct the role of the driver"},
	{name: "provisioner-mount-options", problem: lasting,
		text:    compile(`Mount options are not supported by the provisioner`),
		message: "its StorageClass has mountOptions, which its provisioner does not support",
		advice:  "use another StorageClass, or ask the cluster's administrator to remove them"},
	{name: "driver-topology-missing", problem: lasting,
		text:    compile(`were not found on any nodes|topology labels from selected node .* does not match topology keys from CSINode`),
		message: "the nodes do not have the topology labels of the storage driver",
		advice:  "ask the cluster's administrator to check that the driver runs on the nodes"},
	{name: "block-device-not-supported", problem: lasting,
		text:    compile(`does not support block volume provisioning|block volume not supported`),
		message: "the storage driver does not support block devices",
		advice:  "set volumeMode to Filesystem, or use another StorageClass"},
	{name: "storage-class-secret-template", problem: lasting,
		text:    compile(`^invalid tokens: (.*)`),
		message: "its StorageClass names a Secret by values that the claim does not have: ${1}",
		advice:  "add them to the claim, or use another StorageClass"},
	{name: "storage-class-parameter-unknown", problem: lasting,
		text:    compile(`found unknown parameter key ("[^"]+")`),
		message: "its StorageClass has the unknown parameter ${1}",
		advice:  "use another StorageClass, or ask the cluster's administrator to correct it"},
	{name: "cross-namespace-source-disabled", problem: lasting,
		text:    compile(`CrossNamespaceVolumeDataSource feature is disabled`),
		message: "the cluster allows no data source in another namespace",
		advice:  "use a data source in the namespace of the claim"},
	{name: "data-source-being-deleted", problem: lasting,
		text:    compile(`(?:the PVC DataSource|^snapshot) (\S+) is (?:currently )?being deleted`),
		message: `its data source "${1}" is being deleted`,
		advice:  "use another data source"},
	{name: "data-source-claim-not-found", problem: lasting,
		text:    compile(`persistentvolumeclaim "([^"]+)" not found`),
		message: `its data source, claim "${1}", does not exist`,
		advice:  "create that claim, or correct spec.dataSource"},
	{name: "other-region", problem: lasting,
		text:    compile(`.*can be only created in region.*`),
		message: "the storage driver makes volumes in another region: ${0}",
		advice:  "use another StorageClass, or ask the cluster's administrator to correct it"},
	{name: "data-source-in-other-zone", problem: lasting,
		text:    compile(`.*(?:source volume is in region|does not match source volume zone).*`),
		message: "its data source is in another zone or region: ${0}",
		advice:  "use another data source, or run the pod where the data source is"},
	{name: "backend-without-space", problem: passing,
		text:    compile(`no suitable (?:\w+ )?backend with .* of free space`),
		message: "no storage backend has enough free space",
		advice:  "request less, or ask the cluster's administrator for more storage"},
	{name: "no-matching-backend", problem: lasting,
		text:    compile(`no available backends? for storage class|no available storage for access modes`),
		message: "no storage backend offers what the claim and its StorageClass require",
		advice:  "check accessModes of the claim, or use another StorageClass"},
	{name: "file-system-without-mount-target", problem: passing,
		text:    compile(`No mount target .* is in available state`),
		message: "its file system has no mount target that is available yet",
		advice:  administratorLater, late: administrator},
	{name: "storage-account-full", problem: passing,
		text:    compile(`TotalSharesProvisionedCapacityExceedsAccountLimit`),
		message: "the storage account has no capacity left",
		advice:  administratorLater, late: administrator},
	{name: "backend-not-ready", problem: passing,
		text:    compile(`not ready, current state: (\w+)`),
		message: "the storage backend has not prepared it yet; its state is ${1}",
		advice:  administratorLater, late: administrator},
	{name: "data-source-not-ready", problem: passing,
		text:    compile(`VolumeContentSource \w+ \S+ is not yet available`),
		message: "its data source is not ready yet",
		advice:  "wait", late: administrator},
	{name: "snapshot-size-differs", problem: lasting,
		text:    compile(`size mismatch, requested volume size: (\d+) but source snapshot \S+ (\d+)`),
		message: "it requests ${1} bytes, and its data source has ${2}",
		advice:  "request ${2} in resources.requests.storage"},
	{name: "data-source-size-differs", problem: lasting,
		text:    compile(`volume size is not matching`),
		message: "its size differs from that of its data source",
		advice:  "request the size of the data source"},
	{name: "file-server-denies", problem: lasting,
		text:    compile(`mount error\(13\)`),
		message: "the file server denies access",
		advice:  "ask the cluster's administrator to correct the credentials of the StorageClass"},
	{name: "no-local-path-on-node", problem: lasting,
		text:    compile(`no local path available on node (\S+)`),
		message: `node "${1}" has no directory for local volumes`,
		advice:  "run the pod on another node, or ask the cluster's administrator"},
	{name: "no-node-fits-storage-class", problem: lasting,
		text:    compile(`not able to select a node to create the PV`),
		message: "no node fits its StorageClass",
		advice:  "use another StorageClass, or ask the cluster's administrator to correct it"},
	{name: "storage-class-ceph-cluster-unknown", problem: lasting,
		text:    compile(`missing configuration for cluster ID ("[^"]+")`),
		message: "the storage driver does not know Ceph cluster ${1}, which its StorageClass names",
		advice:  "ask the cluster's administrator to correct clusterID of the StorageClass, or the configuration of the driver"},
	{name: "new-volume-disappeared", problem: lasting,
		text:    compile(`timed out waiting for volume to create: .*InvalidVolume\.NotFound`),
		message: "the new volume disappeared while it was created",
		advice:  "ask the cluster's administrator whether the driver may use the KMS key of the StorageClass"},
	{name: "provisioner-nfs-denied", problem: lasting,
		text:    compile(`access denied by server`),
		message: "the NFS server denies access",
		advice:  "ask the cluster's administrator to check the exports of the server, and the path in the StorageClass"},
	{name: "provisioner-connection-error", problem: passing,
		text:    compile(`connection error: desc = `),
		message: "the storage driver does not respond",
		advice:  administratorLater, late: administrator},
	{name: "cloud-policy-disallows", problem: lasting,
		text:    compile(`RequestDisallowedByPolicy`),
		message: "a policy of the cloud account forbids it",
		advice:  "ask the cluster's administrator"},
	{name: "zone-capacity", problem: passing,
		text:    compile(`SkuNotAvailable|does not have enough resources available|RESOURCE_POOL_EXHAUSTED`),
		message: "the zone or region has no capacity for it",
		advice:  "wait, or use another storage class or zone",
		late:    "use another storage class or zone"},
	{name: "no-compatible-datastore", problem: lasting,
		text:    compile(`No compatible datastores found|none of compatible datastores`),
		message: "no datastore is accessible from the nodes that may use it",
		advice:  "ask the cluster's administrator to correct its StorageClass or the datastores"},
	{name: "storage-class-secret-empty", problem: lasting,
		text:    compile(`provided secret is empty`),
		message: "the Secret that its StorageClass names is empty",
		advice:  "ask the cluster's administrator to correct it"},
	{name: "provisioner-directory-fails", problem: lasting,
		text:    compile(`unable to create directory to provision new pv: (.*)`),
		message: "the provisioner cannot create a directory on the storage server: ${1}",
		advice:  "ask the cluster's administrator to check the export of the server"},
	{name: "cephfs-state", problem: lasting,
		text:    compile(`unexpected state for filesystem (\S+): "([^"]+)"`),
		message: "its file system ${1} has the state ${2}",
		advice:  "ask the cluster's administrator"},
	{name: "kms-key", problem: lasting,
		text:    compile(`\bKMS\b`),
		message: "the encryption key of its StorageClass cannot be used",
		advice:  "ask the cluster's administrator to check the key"},
	{name: "storage-class-names-missing-object", problem: lasting,
		text:    compile(`(?i)(?:\bfile ?system|\bpool|\bfscID)\b[^:]* (?:does not exist|not found)`),
		message: "the storage backend does not have what its StorageClass names: ${0}",
		advice:  "use another StorageClass, or ask the cluster's administrator to correct it"},
	{name: "selected-node-not-found", problem: passing,
		text:    compile(`(?:^|: )nodes? "([^"]+)" not found`),
		message: `node "${1}", which was chosen for it, no longer exists`,
		advice:  "wait until another node is chosen; if the problem persists, delete the pod that uses it",
		late:    "delete the pod that uses it"},
	{name: "no-node-selected", problem: lasting,
		text:    compile(`no node was specified`),
		message: "no node is chosen for it yet",
		advice:  "use a storage class with volumeBindingMode WaitForFirstConsumer"},
	{name: "volume-attributes-class-not-found", problem: lasting,
		text:    compile(`volumeattributesclass[\w.]* "([^"]+)" not found`),
		message: `VolumeAttributesClass "${1}" does not exist`,
		advice:  "correct volumeAttributesClassName, or ask the cluster's administrator which ones exist"},
	{name: "driver-feature-not-supported", problem: lasting,
		text:    compile(`CSI driver does not support (clone operations|snapshot restore|VolumeAttributesClass)`),
		message: "the storage driver does not support ${1}",
		advice:  "remove spec.dataSource or spec.volumeAttributesClassName of the claim, or use another StorageClass"},
	{name: "data-source-of-other-driver", problem: lasting,
		text:    compile(`is not handled by CSI driver of StorageClass (\S+)`),
		message: `its data source belongs to another storage driver than StorageClass "${1}"`,
		advice:  "use a StorageClass of the driver that made the data source"},
	{name: "data-source-volume-mode-differs", problem: lasting,
		text:    compile(`modifies the mode of the source volume|must have the same volume mode for cloning`),
		message: "its volumeMode differs from that of its data source",
		advice:  "set the volumeMode of the data source"},
	{name: "data-source-in-other-namespace", problem: lasting,
		text:    compile(`accessing (\S+) of (\S+) dataSource from \S+ isn't allowed`),
		message: `its data source ${2} "${1}" is in another namespace, which does not allow its use`,
		advice:  "create a ReferenceGrant in that namespace, or use a data source in the claim's own"},
	{name: "not-in-allowed-topologies", problem: lasting,
		text:    compile(`is not in allowed topologies`),
		message: "its StorageClass does not allow volumes where the pod's node is",
		advice:  "change the pod's placement, or use another StorageClass"},
	{name: "clone-smaller-than-source", problem: lasting,
		text:    compile(`must be greater than or equal in size to the specified PVC data source, requested (\d+) but source is (\d+)`),
		message: "it requests ${1} bytes, and its data source has ${2}",
		advice:  "request at least ${2} in resources.requests.storage"},
	{name: "clone-size-differs", problem: lasting,
		text:    compile(`requested size \((\d+) bytes\) is different than the source volume size \((\d+) bytes\)`),
		message: "it requests ${1} bytes, and its data source has ${2}",
		advice:  "request ${2} in resources.requests.storage"},
	{name: "selector-not-supported", problem: lasting,
		text:    compile(`claim Selector is not supported`),
		message: "the storage driver does not support its selector",
		advice:  "remove spec.selector; it can only select among existing PersistentVolumes"},
	{name: "driver-not-on-node", problem: passing,
		text:    compile(`no topology key found on CSINode (\S+)|error getting CSINode for selected node "([^"]+)"|failed to get selected CSINode (\S+):`),
		message: `the storage driver does not run on the pod's node ${1}${2}${3}`,
		advice:  "wait until it runs; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "source-larger-than-request", problem: lasting,
		text:    compile(`requested volume size (\d+) is less than the size (\d+) for the source (?:\w+ )?(\S+)`),
		message: `it requests ${1} bytes, and its source "${3}" has ${2}`,
		advice:  "request at least ${2} in resources.requests.storage"},
	{name: "storage-class-secret-not-found", problem: lasting,
		text:    compile(`error getting secret (\S+) in namespace (\S+?): secrets? "[^"]*" not found`),
		message: `Secret "${1}" of its StorageClass does not exist in namespace "${2}"`,
		advice:  "ask the cluster's administrator to create it"},
	{name: "storage-class-not-found", problem: lasting, means: MeansMissingStorageClass,
		text:    compile(`(?:storageclass[\w.]*|StorageClass) "([^"]+)" not found`),
		message: `StorageClass "${1}" does not exist`,
		advice:  "use another one, or ask the cluster's administrator which ones exist"},
	{name: "operation-aborted", problem: passing,
		text:    compile(`code = Aborted`),
		message: operationRuns,
		advice:  administratorLater, late: administrator},
	earlierOperation,
	{name: "backend-credentials-refused", problem: lasting,
		text: compile(`code = Unauthenticated|rados: ret=-13|(?i:InvalidIdentityToken|WebIdentity|AuthFailure|ExpiredToken|credential|` +
			`incorrect user name or password|InvalidClientTokenId)|` + httpStatus + `401\b`),
		message: "the storage driver's credentials are not accepted",
		advice:  "ask the cluster's administrator to correct them"},
	{name: "backend-permission-denied", problem: lasting,
		text:    compile(`.*(?:code = PermissionDenied|(?i:AccessDenied|access denied|UnauthorizedOperation|not authorized|unauthorized|AuthorizationFailed)|` + httpStatus + `403\b).*`),
		message: "the storage driver lacks a permission in the storage backend: ${0}",
		advice:  "ask the cluster's administrator to grant it"},
	{name: "backend-rate-limit", problem: passing,
		text:    compile(`(?i)rate ?limit|throttl|TooManyRequests|RequestLimitExceeded|` + httpStatus + `429\b`),
		message: "the storage backend's rate limit is reached",
		advice:  "wait", late: administrator},
	{name: "backend-quota-exceeded", problem: passing,
		text:    compile(`(?i)exceeded quota|QuotaExceeded|LimitExceeded|quota .*exceeded|exceed(?:s allowed|ing approved) .*quota`),
		message: "a quota of the storage backend is exceeded",
		advice:  "request less, or remove unused volumes"},
	{name: "backend-full", problem: passing,
		text:    compile(`(?i)insufficient|no space|out of space|not enough`),
		message: "the storage backend is full",
		advice:  "request less, or wait until space is available",
		late:    "request less, or ask the cluster's administrator for more space"},
	{name: "backend-topology", problem: lasting,
		text:    compile(`(?i)topology|no accessible|zone .*(?:not found|does not exist)`),
		message: "the storage backend has no volume where the pod's node is",
		advice:  "change the pod's placement, or use a storage class with volumeBindingMode WaitForFirstConsumer"},
	{name: "data-source-not-usable", problem: passing,
		text:    compile(`(?i).*(?:snapshot .*(?:not found|does not exist|not ready)|(?:data ?source|clone) ).*`),
		message: "its data source cannot be used: ${0}",
		advice:  "check spec.dataSource of the claim: the snapshot or claim must exist and be ready"},
	// "Source does not exist": CSI specification
	{name: "backend-object-not-found", problem: lasting,
		text:    compile(`code = NotFound desc = (.*)`),
		message: "the storage backend does not find its data source, or what its StorageClass names: ${1}",
		advice:  "check spec.dataSource of the claim, or ask the cluster's administrator to check the StorageClass"},
	{name: "backend-timeout", problem: passing,
		text:    compile(`(?i)deadline ?exceeded|timed? ?out|unavailable|connection refused|no such host|name or service not known|` + httpStatus + `50[0234]\b`),
		message: "the storage backend does not respond",
		advice:  administratorLater, late: administrator},
	{name: "backend-resource-exhausted", problem: passing,
		text:    compile(`code = ResourceExhausted desc = (.*)`),
		message: "the storage backend has too little space left, or a limit is reached: ${1}",
		advice:  "request less, or wait until space is available",
		late:    "request less, or ask the cluster's administrator for more space"},
	{name: "backend-not-supported", problem: lasting,
		text:    compile(`(?i).*(?:not supported|unsupported|only supports|\binvalid\b|InvalidParameter).*`),
		message: "the storage backend does not support such a volume: ${0}",
		advice:  "check accessModes, volumeMode and size of the claim, and the parameters of its StorageClass"},
	{name: "backend-invalid-argument", problem: lasting,
		text:    compile(`code = (?:InvalidArgument|OutOfRange|Unimplemented) desc = (.*)`),
		message: "the storage backend does not support such a volume: ${1}",
		advice:  "check accessModes, volumeMode and size of the claim, and the parameters of its StorageClass"},
}

// driverRules match errors about a new volume that contain others, about which provisioningRules would
// be wrong.
var driverRules = []rule{
	earlierOperation,
	{name: "volume-smaller-than-requested", problem: lasting,
		text:    compile(`created volume capacity (\d+) less than requested capacity (\d+)`),
		message: "the storage driver made a volume of ${1} bytes, and ${2} are requested",
		advice:  "ask the cluster's administrator"},
	// "Volume already exists but is incompatible": CSI specification
	{name: "volume-exists-with-other-properties", problem: lasting,
		text:    compile(`code = AlreadyExists desc = (.*)`),
		message: "a volume of its name exists with other properties: ${1}",
		advice:  "delete the claim, which has no files yet, and create it again; if the problem persists, ask the cluster's administrator"},
	{name: "driver-no-cloud-credentials", problem: lasting,
		text:    compile(`NoCredentialProviders|no EC2 IMDS role found`),
		message: "the storage driver has no credentials",
		advice:  "ask the cluster's administrator to give it a role"},
}

// provisioningText explains why a provisioner failed.
func provisioningText(note string) explanation {
	if r, ok := matchCodes(driverRules, note); ok {
		return r
	}
	if r, ok := matchCodes(provisioningRules, note); ok {
		return r
	}
	return explanation{message: usefulEnd(stripNoise(note)), advice: "check the claim; if it is correct, ask the cluster's administrator"}
}

// claimFindings returns what is wrong with the claims.
func (v *view) claimFindings() []finding {
	var found []finding
	for _, c := range v.Claims {
		if cause, ok := v.claimCause(c); ok {
			found = append(found, finding{cause: cause})
		}
	}
	return found
}

func (v *view) claimCause(c *corev1.PersistentVolumeClaim) (Cause, bool) {
	cause := Cause{Object: Object{kindClaim, c.Name}, Count: 1, Time: c.CreationTimestamp.Time, Since: c.CreationTimestamp.Time}
	switch {
	case c.DeletionTimestamp != nil, c.Status.Phase == corev1.ClaimBound:
		return Cause{}, false
	case c.Status.Phase == corev1.ClaimLost:
		cause.Reason = ReasonClaimLost
		cause.Message, cause.Advice = fmt.Sprintf("the volume of claim %q no longer exists", c.Name), restoreVolume
		return cause, true
	}
	return v.pendingClaim(c, cause)
}

// pendingClaim returns why a claim has no volume. It is no cause if the claim waits for
// its pod to be scheduled, or has just been created.
func (v *view) pendingClaim(c *corev1.PersistentVolumeClaim, cause Cause) (Cause, bool) {
	events := v.eventsFor(Object{kindClaim, c.Name}, c.UID)
	waits := latest(events, "WaitForFirstConsumer", "WaitForPodScheduled", provisioned)
	if failed := latest(events, ReasonProvisioningFailed); failed != nil && !waits.isAfter(failed.LastSeen) {
		return provisioningCause(failed, events, cause.Since), true
	}
	cause.Reason, cause.Transient = ReasonClaimPending, true
	cause.Message = fmt.Sprintf("claim %q waits for a volume", c.Name)
	if failed := latest(events, "FailedBinding", "VolumeMismatch"); failed != nil && !waits.isAfter(failed.LastSeen) {
		cause.Message += ": " + excerpt(lowerFirst(stripNoise(failed.Note)))
		cause.Advice = "set storageClassName, or ask the cluster's administrator for a matching PersistentVolume"
		if failed.Reason == "VolumeMismatch" || strings.Contains(failed.Note, "already bound to a different claim") {
			cause.Transient = failed.Reason != "VolumeMismatch"
			cause.Advice = "correct volumeName, or the size, accessModes and storageClassName of the claim; if the former claim of the volume was deleted, " +
				"ask the cluster's administrator to remove claimRef from the volume"
		}
		return cause.withEvent(failed), true
	}
	if external := latest(events, "ExternalProvisioning"); external != nil {
		driver := c.Annotations[provisionerAnnotation]
		if m := provisioner.FindStringSubmatch(external.Note); m != nil {
			driver = m[1]
		}
		cause.Message += ofDriver(driver)
		cause.Advice, cause.LateAdvice = "wait for the driver; if the problem persists, "+administrator, administrator
		if external.FirstSeen.After(cause.Since) { // the claim waited for a pod before
			cause.Since = external.FirstSeen
		}
		cause.startsUntil(cause.Since.Add(provisionedAfter), v.Now)
		return cause, true
	}
	if volume := c.Spec.VolumeName; volume != "" {
		cause.Message = fmt.Sprintf("claim %q waits for PersistentVolume %q, which its volumeName names", c.Name, line(volume, maxName))
		cause.Advice = "correct volumeName, or ask the cluster's administrator whether this volume exists and is free"
		return cause, true
	}
	cause.Message += ofDriver(c.Annotations[provisionerAnnotation])
	cause.Advice = "no Event gives the reason; ask the cluster's administrator"
	return cause, waits == nil && v.blocksScheduling(c.Name)
}

// provisionerAnnotation is the driver that should create the volume of a claim:
// kubernetes/pkg/controller/volume/persistentvolume/pv_controller.go.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

// ofDriver returns a clause about the driver that should create a volume.
func ofDriver(name string) string {
	if name == "" {
		return ""
	}
	return " that driver " + line(name, maxName) + " should create"
}

// provisionedAfter is how long a provisioner usually needs.
const provisionedAfter = 3 * time.Minute

// provisioner matches the provisioner in an ExternalProvisioning Event:
// kubernetes/pkg/controller/volume/persistentvolume/pv_controller.go.
var provisioner = compile(`by the external provisioner '([^']+)'`)

// provisioned is the reason of the Event about a volume that has been provisioned.
const provisioned = "ProvisioningSucceeded"

// provisioningCause returns the cause in a ProvisioningFailed Event of a claim, which has these Events. It exists
// since the first of them that failed, or since the creation of the claim if the Events do not say.
func provisioningCause(failed *Event, events []Event, created time.Time) Cause {
	r := provisioningText(failed.Note)
	since := failed.FirstSeen
	for _, e := range events {
		if e.Reason == failed.Reason && !e.FirstSeen.IsZero() && e.FirstSeen.Before(since) {
			since = e.FirstSeen
		}
	}
	if since.IsZero() {
		since = created
	}
	return (&Cause{
		Reason: ReasonProvisioningFailed, Object: failed.Regarding, Since: since,
		Message: fmt.Sprintf("no volume can be provisioned for claim %q: %s", failed.Regarding.Name, r.message),
		Advice:  r.advice, LateAdvice: r.late, Transient: r.transient, Means: r.means,
	}).withEvent(failed)
}

// resizeRules match errors of a resizer or a node about the new size of a volume. Other errors
// match provisioningRules.
var resizeRules = []rule{
	goneVolume,
	{name: "resize-wrong-state", problem: passing,
		text:    compile(`invalid state (\w+) for controller volume expansion`),
		message: "its storage driver cannot resize it in the state ${1}",
		advice:  administratorLater, late: administrator},
	{name: "resize-not-migrated", problem: lasting,
		text:    compile(`is not migrated to CSI`),
		message: "its volume belongs to a storage plugin that the driver does not replace",
		advice:  "ask the cluster's administrator"},
	{name: "resize-offline-only", problem: lasting,
		text:    compile(`only supports offline expansion|only supported on Unattached disk|code = FailedPrecondition`),
		message: "its storage driver resizes it only while no pod uses it",
		advice:  "stop the pods that mount it until it is resized"},
	{name: "resize-read-only", problem: lasting,
		text:    compile(`requested read-only file system`),
		message: "a pod mounts it read-only",
		advice:  "mount it once without readOnly, so that its file system is resized"},
	{name: "resize-no-space", problem: lasting,
		text:    compile(`failed to schedule .* more bytes to disk`),
		message: "the storage backend has too little space for the new size",
		advice:  "ask the cluster's administrator for more storage"},
	{name: "resize-rate-limit", problem: passing,
		text:    compile(`VolumeModificationRateExceeded|in OPTIMIZING state`),
		message: "the storage backend limits how often a volume is changed",
		advice:  "it is tried again; if it is not resized within a day, ask the cluster's administrator"},
	{name: "resize-size-not-supported", problem: lasting,
		text:    compile(`code = (?:InvalidArgument|OutOfRange|Unimplemented) desc = (.*)`),
		message: "the storage backend does not support this size: ${1}",
		advice:  "request a size that it supports; a size below the present one is refused"},
}

// modifyRules match errors of a resizer about a VolumeAttributesClass. Other errors match
// provisioningRules.
var modifyRules = []rule{
	goneVolume,
	{name: "modify-class-not-found", problem: lasting,
		text:    compile(`VAC "([^"]+)" does not exist`),
		message: `VolumeAttributesClass "${1}" does not exist`,
		advice:  "correct volumeAttributesClassName, or ask the cluster's administrator which ones exist"},
	{name: "modify-parameters-refused", problem: lasting,
		text:    compile(`code = (?:InvalidArgument|OutOfRange|Unimplemented) desc = (.*)`),
		message: "the storage backend refuses its parameters: ${1}",
		advice:  "use another class, or ask the cluster's administrator to correct it"},
}

// goneVolume matches the error of a driver that is asked to change a volume: "Volume does not exist" in the
// CSI specification.
var goneVolume = rule{name: "volume-gone", problem: lasting,
	text:    compile(`code = NotFound desc = (.*)`),
	message: "the storage backend does not have its volume: ${1}",
	advice:  "ask the cluster's administrator"}

// resizePrefix matches what the resizer and the kubelet write before an error.
var resizePrefix = compile(`^(?:resize volume \S+ (?:by resizer \S+ )?failed: |\w+\.NodeExpandVolume failed for volume "[^"]*" (?:: )?)?` +
	`(?:Expander\.NodeExpand failed to expand the volume ?:? )?`)

// resizeReasons are the Events about a resize that failed.
var resizeReasons = []string{ReasonVolumeResizeFailed, ReasonFileSystemResizeFailed}

// Resizing describes the resize of a bound claim that does not have the size that it requests yet.
// It returns "" for all others. See [FromClaim] for the reason why a resize fails.
func Resizing(c *corev1.PersistentVolumeClaim) string {
	asked, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	if c.Status.Phase != corev1.ClaimBound || asked.Cmp(has) <= 0 {
		return ""
	}
	text := fmt.Sprintf("resized from %s to %s", has.String(), asked.String())
	if !slices.ContainsFunc(c.Status.Conditions, func(p corev1.PersistentVolumeClaimCondition) bool {
		return p.Type == corev1.PersistentVolumeClaimFileSystemResizePending && p.Status == corev1.ConditionTrue
	}) {
		return "not yet " + text
	}
	return text + " when a pod mounts it: if one runs with it, restart that pod"
}

// FromClaim returns why a bound claim does not get the size that it requests, or nil. A pod that
// uses the claim can run nevertheless. events can contain others than those of the claim.
func FromClaim(c *corev1.PersistentVolumeClaim, events []Event) *Cause {
	if Resizing(c) == "" {
		return nil
	}
	asked, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	object := Object{kindClaim, c.Name}
	what := fmt.Sprintf("claim %q cannot be resized from %s to %s", c.Name, has.String(), asked.String())
	for _, failed := range c.Status.Conditions {
		reason, ok := resizeConditions[failed.Type]
		if ok && failed.Status == corev1.ConditionTrue && failed.Message != "" {
			cause := resizeCause(reason, object, what, failed.Message)
			cause.Time, cause.Since = failed.LastTransitionTime.Time, failed.LastTransitionTime.Time
			return &cause
		}
	}
	failed := latest(newView(Workload{Events: events}).eventsFor(object, c.UID), resizeReasons...)
	if failed == nil {
		return nil
	}
	cause := resizeCause(failed.Reason, object, what, failed.Note).withEvent(failed)
	return &cause
}

// resizeConditions maps the conditions of a claim whose resize failed to reasons.
var resizeConditions = map[corev1.PersistentVolumeClaimConditionType]string{
	corev1.PersistentVolumeClaimControllerResizeError: ReasonVolumeResizeFailed,
	corev1.PersistentVolumeClaimNodeResizeError:       ReasonFileSystemResizeFailed,
}

// volumeModifyFailed is the reason of the Event about a claim that cannot get its
// VolumeAttributesClass.
const volumeModifyFailed = "VolumeModifyFailed"

// resizeCause is the cause of a volume that cannot be resized or modified. The message begins with
// what.
func resizeCause(reason string, object Object, what, text string) Cause {
	text = resizePrefix.ReplaceAllString(line(text, maxRead), "")
	rules := resizeRules
	if reason == volumeModifyFailed {
		rules = modifyRules
	}
	r, ok := matchCodes(rules, text)
	if !ok {
		r, ok = matchCodes(provisioningRules, text)
	}
	if !ok {
		r = retried(usefulEnd(stripNoise(text)))
	}
	cause := Cause{Reason: reason, Object: object, Count: 1, Message: what + ": " + r.message, Advice: r.advice, LateAdvice: r.late, Transient: r.transient, Means: r.means}
	cause.sanitize()
	return cause
}

var (
	unboundClaims = compile(`unbound immediate PersistentVolumeClaims`)
	claimNotFound = compile(`persistentvolumeclaim "([^"]+)" not found`)
	claimLost     = compile(`persistentvolumeclaim "([^"]+)" bound to non-existent persistentvolume`)
	claimDeleted  = compile(`persistentvolumeclaim "([^"]+)" is being deleted`)
)

// The advice about claims.
const (
	restoreVolume = "ask the cluster's administrator to restore the volume under the same name, or delete the claim and start again"
	replaceClaim  = "use another claim, or end the pods that use it and create it again"
)

// blocksScheduling reports whether the scheduler waits for the claim to be bound.
func (v *view) blocksScheduling(claim string) bool {
	return slices.ContainsFunc(v.currentPods, func(p *corev1.Pod) bool {
		scheduled := condition(p, corev1.PodScheduled)
		return scheduled != nil && unboundClaims.MatchString(scheduled.Message) && slices.Contains(ClaimsOf(p), claim)
	})
}

// ClaimsOf returns the names of the claims that the pod mounts.
func ClaimsOf(p *corev1.Pod) []string {
	var names []string
	for _, volume := range p.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, p.Name+"-"+volume.Name)
		}
	}
	return names
}

// claimProblem returns what the scheduler reports about claims. It returns nothing if the
// claim itself shows more. It returns false if the text is not about claims.
func (s *podView) claimProblem(text string, cause *Cause) ([]finding, bool) {
	if m := claimNotFound.FindStringSubmatch(text); m != nil {
		if s.claims[m[1]] != nil {
			return nil, true // it does by now
		}
		notFound := ClaimNotFound(m[1])
		notFound.Time = cause.Time
		return []finding{{cause: notFound}}, true
	}
	if m := claimLost.FindStringSubmatch(text); m != nil {
		if c := s.claims[m[1]]; c != nil && c.Status.Phase == corev1.ClaimLost {
			return nil, true // the claim shows it
		}
		cause.Reason, cause.Object, cause.Transient = ReasonClaimLost, Object{kindClaim, m[1]}, false
		cause.Message, cause.Advice = fmt.Sprintf("the volume of claim %q no longer exists", m[1]), restoreVolume
		return []finding{{cause: *cause}}, true
	}
	if m := claimDeleted.FindStringSubmatch(text); m != nil {
		cause.Object = Object{kindClaim, m[1]}
		cause.Message, cause.Advice = fmt.Sprintf("claim %q that the pod mounts is being deleted", m[1]), replaceClaim
		return []finding{{cause: *cause}}, true
	}
	if !unboundClaims.MatchString(text) {
		return nil, false
	}
	names, found, explained := s.unexplainedClaims()
	if len(names) == 0 && len(ClaimsOf(s.pod)) > 0 || len(found) > 0 || explained {
		return found, true
	}
	cause.Reason = ReasonClaimPending
	cause.Message = "a claim that the pod mounts waits for a volume"
	if len(names) == 1 {
		cause.Object, cause.Message = Object{kindClaim, names[0]}, fmt.Sprintf("claim %q waits for a volume", names[0])
	}
	cause.Advice = "check its Events (kubectl describe pvc -n " + s.pod.Namespace
	if len(names) == 1 {
		cause.Advice += " " + names[0]
	}
	cause.Advice += ")"
	return []finding{{cause: *cause}}, true
}

// unexplainedClaims returns the claims of the pod that the caller could not read, and the causes
// that their Events show. It reports whether a claim that was read explains itself.
func (s *podView) unexplainedClaims() (names []string, found []finding, explained bool) {
	for _, name := range ClaimsOf(s.pod) {
		c := s.claims[name]
		if c == nil {
			names = append(names, name)
		} else if _, ok := s.claimCause(c); ok {
			explained = true
		}
	}
	for _, name := range names {
		if len(s.eventsFor(Object{kindClaim, name}, "")) == 0 {
			continue
		}
		if cause, ok := s.claimCause(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}); ok {
			found = append(found, finding{cause: cause})
		}
	}
	return names, found, explained
}

// bindingVolumes is the beginning of the scheduler's text about claims that get their volume once a
// node is chosen.
const bindingVolumes = `running PreBind plugin "VolumeBinding": binding volumes: `

// failedClaims returns why claims of the pod have no volume, by their Events since the pod exists.
// The claims that were read and explain themselves are not in the result. It reports whether there
// is one. Events after a failure, which say that the claim waits, do not show that it has a volume.
func (s *podView) failedClaims() (found []finding, explained bool) {
	for _, name := range ClaimsOf(s.pod) {
		c := s.claims[name]
		if c == nil {
			c = &corev1.PersistentVolumeClaim{}
		} else if cause, ok := s.claimCause(c); ok && cause.Reason == ReasonProvisioningFailed {
			explained = true
			continue
		}
		events := s.eventsFor(Object{kindClaim, name}, c.UID)
		failed := latest(events, ReasonProvisioningFailed)
		if failed == nil || failed.LastSeen.Before(s.pod.CreationTimestamp.Time) || latest(events, provisioned).isAfter(failed.LastSeen) || c.Status.Phase == corev1.ClaimBound {
			continue
		}
		found = append(found, finding{cause: provisioningCause(failed, events, s.pod.CreationTimestamp.Time)})
	}
	return found, explained
}

// ClaimNotFound returns the cause of a pod that mounts a claim that does not exist.
func ClaimNotFound(name string) Cause {
	return Cause{
		Reason: ReasonClaimNotFound, Object: Object{kindClaim, name}, Count: 1,
		Message: fmt.Sprintf("claim %q that the pod mounts does not exist", name), Advice: "create it, or correct its name",
	}
}

// maxEventDelay is how long after the fact an Event may be written.
const maxEventDelay = time.Minute
