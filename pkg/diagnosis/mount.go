package diagnosis

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// attachedElsewhere is how the attach/detach controller begins its text about a volume that is attached
// to another node, before Kubernetes 1.37 and since.
const attachedElsewhere = `(?:Multi-Attach error|Waiting for detach) `

// Patterns for the name of a volume: one requires the name, the other allows it.
const (
	namesVolume   = `for volume "([^"]+)"`
	mayNameVolume = `^(?:.*?` + namesVolume + `)?`
)

// usedByPods matches an error about a volume that is attached to another node, with the pods that use it.
var usedByPods = compile(attachedElsewhere + namesVolume + `.* used by pod\(s\) (.*?)(?: and \d+ pod\(s\) in different namespaces)?$`)

var mountRules = []rule{
	{compile(namesVolume + `.*ReadWriteOncePod access mode and is already in use`),
		`volume "${1}" cannot be mounted: another pod uses it, and its access mode is ReadWriteOncePod`, "wait until the other pod ends, or stop it", true},
	{compile(namesVolume + `.*timed out waiting for external-attacher of (\S+) CSI driver`),
		`volume "${1}" is not attached to the node yet: storage driver ${2} takes too long`, administratorLater, true},
	{compile(namesVolume + `.*failed to load secret ("[^"]+"): secrets ("[^"]+") not found`),
		`volume "${1}" cannot be attached: Secret ${2} of its storage driver does not exist`, "ask the cluster's administrator to create it", false},
	{compile(namesVolume + `.*already formatted with different filesystem: .*current=(\w+), new:(\w+)`),
		`volume "${1}" cannot be mounted: its file system is ${2}, and its StorageClass requires ${3}`, "use a StorageClass whose file system is ${2}, or delete the claim if you do not need its files", false},
	{compile(namesVolume + `.*Staging target path \S+ is no longer valid`),
		`volume "${1}" cannot be mounted: its mount on the node is no longer valid`, "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.*secretProviderClass is not set`),
		`volume "${1}" cannot be mounted: it names no SecretProviderClass`, "set secretProviderClass in volumeAttributes of the csi volume", false},
	{compile(namesVolume + `.*Readonly is not true in request`),
		`volume "${1}" cannot be mounted: volumes of the Secrets Store must be read-only`, "set readOnly to true in the csi volume", false},
	{compile(namesVolume + `.*failed to login: .*Code: 40[13]\b`),
		`volume "${1}" cannot be mounted: Vault does not accept the pod's service account for the role`, "check roleName of the SecretProviderClass, and serviceAccountName; the administrator of Vault can tell which ones the role accepts", false},
	{compile(namesVolume + `.*volume mode "[^"]+" not supported by driver (\S+) \(no CSIDriver object\)`),
		`volume "${1}" cannot be mounted: storage driver ${2} is not installed, or supports no volumes inside a pod`, "use a claim instead of a csi volume, or ask the cluster's administrator to install the driver", false},
	{compile(`volume (\S+) has volumeMode Block, but is specified in volumeMounts`),
		`volume "${1}" is a block device, but volumeMounts lists it`, "list it in volumeDevices, or use a claim with volumeMode Filesystem", false},
	{compile(`volume (\S+) has volumeMode Filesystem, but is specified in volumeDevices`),
		`volume "${1}" is a file system, but volumeDevices lists it`, "list it in volumeMounts, or use a claim with volumeMode Block", false},
	{compile(namesVolume + `.*applyFSGroup failed for vol .*: no such file or directory`),
		`volume "${1}" cannot be mounted yet: a file was deleted while the node changed the group of the files`,
		"wait for the next attempt; to avoid this, set securityContext.fsGroupChangePolicy to OnRootMismatch", true},
	{compile(namesVolume + `.* is not running but is required for remote locking`),
		`volume "${1}" cannot be mounted: the node cannot lock files of NFS version 3`,
		"add the mount option nfsvers=4.1 or nolock, or ask the cluster's administrator to run rpc.statd on the node", false},
	{compile(namesVolume + `.* with some un-schedulable replicas`),
		`volume "${1}" cannot be attached: the storage has no place for all of its replicas`, "ask the cluster's administrator for more storage, or for fewer replicas", false},
	{compile(namesVolume + `.*connection error: desc = `),
		`volume "${1}" cannot be attached or mounted: the storage driver does not respond`, administratorLater, true},
	{compile(namesVolume + `.*No matching mount target in the az ([\w-]+)`),
		`volume "${1}" cannot be mounted: its file system has no mount target in zone ${2}, where the node is`, "run the pod in another zone, or ask the cluster's administrator for a mount target there", false},
	{compile(namesVolume + `.*missing configuration for cluster ID ("[^"]+")`),
		`volume "${1}" cannot be mounted: the storage driver does not know Ceph cluster ${2}`, "ask the cluster's administrator to correct clusterID of the volume, or the configuration of the driver", false},
	{compile(namesVolume + `.*applyFSGroup failed for vol .*: (operation not permitted|read-only file system)`),
		`volume "${1}" cannot be mounted: the node may not change the group of its files: ${2}`, "remove securityContext.fsGroup, or use a volume that supports it", false},
	{compile(namesVolume + `.*transport endpoint is not connected`),
		`volume "${1}" cannot be mounted: the program on the node that serves it has ended`, "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator", false},
	{compile(namesVolume + `.*failed to find the sidecar container in Pod spec`),
		`volume "${1}" cannot be mounted: the pod lacks the sidecar container of Cloud Storage FUSE`, `add the annotation gke-gcsfuse/volumes: "true" to the pod`, false},
	{compile(namesVolume + `.*the webhook failed to inject the sidecar container`),
		`volume "${1}" cannot be mounted: the pod was created without the sidecar container of Cloud Storage FUSE`, "delete the pod, so that it is created again; if the problem persists, ask the cluster's administrator", false},
	{compile(namesVolume + `.*failed to get GCS bucket ("[^"]+"): .*bucket doesn't exist`),
		`volume "${1}" cannot be mounted: bucket ${2} does not exist`, "correct the name of the bucket", false},
	{compile(namesVolume + `.*(?:failed to get GCS bucket ("[^"]+"): .*\b403\b|ListObjectsV2 failed for bucket (\S+) .*(?:Forbidden|Access ?Denied))`),
		`volume "${1}" cannot be mounted: access to bucket ${2}${3} is denied`, "allow the pod's service account, or the storage driver, to use the bucket, or correct its name", false},
	{compile(namesVolume + `.*failed to prepare storage service: (.*)`),
		`volume "${1}" cannot be mounted: the storage service cannot be used with the pod's service account: ${2}`, "check the annotations and permissions of the service account", false},
	{compile(namesVolume + `.*(?:sidecar|"[^"]*") container terminated due to OOMKilled`),
		`volume "${1}" cannot be mounted: the container that serves it ran out of memory`, "raise its memory limit, for the sidecar container with the annotation gke-gcsfuse/memory-limit of the pod", false},
	{compile(namesVolume + ` err=no volume plugin matched|FindAttachablePluginBySpec failed ` + namesVolume),
		`volume "${1}${2}" cannot be mounted: the cluster does not support its type`, "use a claim or a csi volume", false},
	{compile(namesVolume + `.*AttachDiskWhileBeingDetached`),
		`volume "${1}" cannot be attached yet: its disk is still being detached from a node`, administratorLater, true},
	{compile(namesVolume + `.*an incorrect mount option was specified`),
		`volume "${1}" cannot be mounted: one of its mount options is not valid`, "correct mountOptions of its PersistentVolume or StorageClass", false},
	{compile(namesVolume + `.*(?: is apparently in use by the system|already mounted or mount point busy)`),
		`volume "${1}" cannot be mounted: its device or its directory on the node is in use`, "ask the cluster's administrator what uses it; it is often multipathd", false},
	{compile(namesVolume + `.*failed to find disk on lun`),
		`volume "${1}" cannot be mounted: the node does not see the disk, although it is attached`, administratorLater, true},
	{compile(namesVolume + `.* is not a compatible disk type with the machine type ([\w-]+)`),
		`volume "${1}" cannot be attached: machines of type ${2} cannot use this type of disk`, "use a storage class with another type of disk, or select other nodes", false},
	{compile(namesVolume + `.*provider not found: provider "([^"]+)"`),
		`volume "${1}" cannot be mounted: provider "${2}" of the external secret store does not run on the node`,
		"correct provider in the SecretProviderClass, or ask the cluster's administrator to run the provider on the node", true},
	{compile(namesVolume + ` : (?:rpc error: code = DeadlineExceeded desc = )?context deadline exceeded$`),
		`volume "${1}" cannot be attached or mounted yet: the storage driver takes too long`, administratorLater, true},
	{compile(`(?:Volume not attached according to node status ` + namesVolume + `|` + namesVolume + `.*(?:hasn't been attached yet|is not attached for volume attachment))`),
		`volume "${1}${2}" is not attached to the node yet`, administratorLater, true},
	{compile(namesVolume + `.*(?:not in the same (?:availability )?zone|because it is not in zone|ZoneMismatch)`),
		`volume "${1}" cannot be attached: it is in another zone than the pod's node`, "delete the pod, so that it is scheduled again, and do not set nodeName; if the problem persists, ask the cluster's administrator", false},
	{compile(namesVolume + `.*volume is faulted`),
		`volume "${1}" cannot be attached: all replicas of its data have failed`, "ask the cluster's administrator to repair it, or restore the volume from a backup", false},
	{compile(namesVolume + `.*RBD image feature set mismatch`),
		`volume "${1}" cannot be mounted: the kernel of the node does not support all features of the RBD image`, "ask the cluster's administrator to change imageFeatures of the StorageClass, or to update the nodes", false},
	{compile(namesVolume + `.*serviceaccounts "([^"]+)" not found`),
		`volume "${1}" cannot be mounted: service account "${2}" of the pod does not exist`, "create it again, or correct serviceAccountName", false},
	{compile(namesVolume + `.*failed to fetch token: (.*)`),
		`volume "${1}" cannot be mounted yet: the node gets no token for the pod's service account: ${2}`, administratorLater, true},
	{compile(namesVolume + `.*configmap "kube-root-ca\.crt" not found`),
		`volume "${1}" cannot be mounted yet: the namespace has no ConfigMap "kube-root-ca.crt", which the control plane creates`, administratorLater, true},
	{compile(namesVolume + `.*object ("[^"]+")/("[^"]+") not registered`),
		`volume "${1}" cannot be mounted yet: the node has not loaded ${3}`, administratorLater, true},
	{compile(namesVolume + `.*PodCertificateRequest was permanently (?:denied|failed): (.*)`),
		`volume "${1}" cannot be mounted: the certificate of the pod is refused: ${2}`, "correct the podCertificate source of the volume, or ask the administrator of the signer", false},
	{compile(namesVolume + `.*credential bundle is not issued yet`),
		`volume "${1}" cannot be mounted yet: the certificate of the pod is not issued yet`, "wait; if the problem persists, check that the signer of its podCertificate source runs", true},
	{compile(namesVolume + `.*volume mode "[^"]+" not supported by driver (\S+)`),
		`volume "${1}" cannot be mounted: storage driver ${2} supports no volumes inside a pod`, "use a claim instead of a csi volume", false},
	{compile(namesVolume + `.*there is no resource request for huge pages`),
		`volume "${1}" cannot be mounted: it has a medium of huge pages, and no container requests huge pages`, "request hugepages in resources of a container, or use another medium", false},
	{compile(namesVolume + `.*mount options are not supported for this volume type`),
		`volume "${1}" cannot be mounted: its type does not support mount options`, "remove mountOptions from its PersistentVolume and StorageClass", false},
	{compile(namesVolume + `.*path ("[^"]+") does not exist`),
		`volume "${1}" cannot be mounted: the node has no directory ${2}`, "ask the cluster's administrator to create it; if the node was replaced, the data is lost", false},
	{compile(namesVolume + `.*mount error(?:\(13\)|[ :]+13\b)`),
		`volume "${1}" cannot be mounted: the storage server denies access`, "check the user and password in the volume's Secret; if they are correct, ask the cluster's administrator", false},
	{compile(namesVolume + `.*(?:mount error(?:\(2\)|[ :]+2\b)|reason given by server: No such file or directory)`),
		`volume "${1}" cannot be mounted: the storage server has no such path or share`, "check the path of the volume, or create it on the server", false},
	{compile(namesVolume + `.*(?:mount error(?:\(11\d\)|[ :]+11\d\b)|mount error: no mds server is up|mount volume \S+ to \S+ timeout after|rados: ret=-110|rbd: map failed: \(110\))`),
		`volume "${1}" cannot be mounted: the storage server does not respond`, "check the server of the volume, or wait until it is available", true},
	{compile(namesVolume + `.*(?i:mount\.nfs: (?:Protocol not supported|requested NFS version or transport protocol is not supported))`),
		`volume "${1}" cannot be mounted: the NFS server does not support this version of NFS`, "correct the mount option nfsvers", false},
	{compile(namesVolume + `.*(?i:failed to resolve (?:server )?\S+|could not resolve address for \S+)`),
		`volume "${1}" cannot be mounted: the host name of the storage server cannot be resolved`, "check the server or file system ID of the volume; if it is correct, ask the cluster's administrator", true},
	{compile(namesVolume + ` : PersistentVolume "[^"]+" is marked for deletion`),
		`volume "${1}" cannot be attached: it is being deleted`, "use another claim; if you need the data, ask the cluster's administrator to save it first", false},
	{compile(`error processing PVC [^/\s]+/(\S+): PVC is being deleted`),
		`claim "${1}" that the pod mounts is being deleted`, replaceClaim, true},
	{compile(`error processing PVC [^/\s]+/(\S+): PVC is not bound`),
		`claim "${1}" that the pod mounts has no volume`, "wait until it is bound; its Events say why it is not", true},
	{compile(`error processing PVC [^/\s]+/(\S+): failed to fetch PVC from API server: persistentvolumeclaims "[^"]+" not found`),
		`claim "${1}" that the pod mounts does not exist`, "create it, or correct its name", false},
	{compile(`error processing PVC [^/\s]+/(\S+): failed to fetch PVC from API server: .*no relationship found between node`),
		`the node cannot read claim "${1}"`, administratorLater, true},
	{compile(`error processing PVC ([a-z0-9-]+)/([a-z0-9.-]+): (.*)`),
		`claim "${2}" cannot be mounted: ${3}`, "check the claim (kubectl describe pvc -n ${1} ${2}); if it is correct, ask the cluster's administrator", true},
	{compile(namesVolume + `.* has GET error for volume attachment (\S+): .* not found`),
		`volume "${1}" is not attached to the node: VolumeAttachment "${2}" does not exist`, "wait until the volume is attached again; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.* has GET error for volume attachment (\S+): .*no relationship found between node`),
		`volume "${1}" cannot be mounted: the node cannot read VolumeAttachment "${2}"`, administratorLater, true},
	{compile(`^Setting volume ownership for `),
		"the node changes the owner of the files in a volume, which takes long", "wait; to avoid this, set securityContext.fsGroupChangePolicy to OnRootMismatch", true},
	{compile(namesVolume + `.*failed to get secretproviderclass [^/\s]+/([^,\s]+).* not found`),
		`volume "${1}" cannot be mounted: SecretProviderClass "${2}" does not exist`, "create it, or correct its name", false},
	{compile(namesVolume + `.*failed to mount secrets store objects for pod [^,]*, err: (?:rpc error: code = \w+ desc = )?(?:failed to mount objects, error: )?(.*)`),
		`volume "${1}" cannot be mounted: the external secret store answers: ${2}`, "check the SecretProviderClass, and the permissions of the pod's service account in the store", true},
	{compile(`failed while expanding volume ` + namesVolume + ` : (?:Expander\.NodeExpand failed to expand the volume ?:? )?(?:rpc error: code = \w+ desc = )?(.*)`),
		`volume "${1}" cannot be mounted, because its file system cannot be resized: ${2}`, administratorLater, true},
	{compile(`NodeAffinity check failed ` + namesVolume),
		`volume "${1}" cannot be mounted: the pod's node cannot use it`, "delete the pod, so that it is scheduled again, and do not set nodeName", false},
	{compile(mayNameVolume + ` : \[((?:(?:configmap|secret) "[^"]+" not found(?:, )?){2,})\]$`),
		`volume "${1}" cannot be mounted: ${2}`, "create them, or correct their names", false},
	{compile(mayNameVolume + `.*configmap "([^"]+)" not found`),
		`volume "${1}" cannot be mounted: ConfigMap "${2}" does not exist`, "create it, or correct its name", false},
	{compile(mayNameVolume + `.*(?:secret|could not get secret\([^)]*\): secrets) "([^"]+)" not found`),
		`volume "${1}" cannot be mounted: Secret "${2}" does not exist`, "create it, or correct its name", false},
	{compile(mayNameVolume + `.*references non-existent (config|secret) key: (\S+)`),
		`volume "${1}" cannot be mounted: key "${3}" does not exist in its ConfigMap or Secret`, "add the key, or correct its name", false},
	{compile(mayNameVolume + `.*failed to sync (\w+) cache`),
		`volume "${1}" cannot be mounted yet: the node has not loaded the ${2}`, "wait", true},
	{compile(mayNameVolume + `.*hostPath type check failed: (\S+) is not a (\w+)`),
		`volume "${1}" cannot be mounted: ${2} of the node is not a ${3}`, "correct the path, or use another kind of volume", false},
	{usedByPods,
		`volume "${1}" cannot be attached: pods on another node use it: ${2}`, "wait until these pods end, or stop them; if one of them does not end, check its node", true},
	{compile(attachedElsewhere + namesVolume + `.* used by \d+ pod\(s\) in different namespaces`),
		`volume "${1}" cannot be attached: a pod of another namespace uses it on another node`, "wait until that pod ends; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.*driver name (\S+) not found in the list of registered CSI drivers`),
		`volume "${1}" cannot be mounted: the storage driver ${2} does not run on the pod's node`, "wait until it runs; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.* CSINode \S+ does not contain driver (\S+)`),
		`volume "${1}" cannot be attached: the storage driver ${2} does not run on the pod's node`, "wait until it runs; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.*(?i:operation with the given volume .* already exists|volume attachment is being de(?:leted|tached))`),
		`volume "${1}" cannot be attached or mounted yet: an earlier operation on it has not ended`, administratorLater, true},
	{compile(namesVolume + `.*(?:you might need a |unknown filesystem type)`),
		`volume "${1}" cannot be mounted: the node cannot mount this type of file system`, "check fsType; for NFS or CIFS, ask the cluster's administrator to install its client on the nodes", false},
	{compile(namesVolume + `.*(?:found errors on device|can't read superblock|Structure needs cleaning)`),
		`volume "${1}" cannot be mounted: its file system is damaged`, "ask the cluster's administrator to repair it, or restore the volume from a backup", false},
	{compile(namesVolume + `.*(?i:wrong fs type|bad option|bad superblock)`),
		`volume "${1}" cannot be mounted: its file system cannot be read`, "check fsType and mountOptions, or restore the volume from a backup", false},
	{compile(namesVolume + `.*(?i:mount\.nfs: access denied|access denied by server|mount\.nfs: Operation not permitted|reason given by server: Permission denied)`),
		`volume "${1}" cannot be mounted: the NFS server denies access`, "check the server's exports and the path", false},
	{compile(namesVolume + `.*(?i:mount\.nfs4?: Connection (?:timed out|refused|reset by peer)|No route to host|Stale file handle)`),
		`volume "${1}" cannot be mounted: the NFS server does not respond`, "check server and path, or wait until the server is available", true},
	{compile(namesVolume + `.*(?i:\bvolume(?: with ID)?:? ["'\[]?[^\s"'\]]+["'\]]? (?:is |was )?not found|\bvolume not found|could not find volume|InvalidVolume\.NotFound)`),
		`volume "${1}" cannot be attached or mounted: the storage backend does not have it`, "ask the cluster's administrator to restore it from a backup; delete the claim only if you do not need its files", false},
	{compile(namesVolume + `.*(?i:exceeded? .*(?:attach|volume).*limit|Exceeded limit '[^']*' on resource|volume limit has been reached|AttachmentLimitExceeded|max(?:imum)? number of (?:volumes|attachments)|max.*volumes? (?:already )?attached|maximum number of data disks)`),
		`volume "${1}" cannot be attached: the node has as many volumes as it can have`, "wait until the pod runs on another node; if the problem persists, ask the cluster's administrator", true},
	{compile(namesVolume + `.*(?:NoCredentialProviders|no EC2 IMDS role found)`),
		`volume "${1}" cannot be attached or mounted: the storage driver has no credentials`, "ask the cluster's administrator to give it a role", false},
	{compile(namesVolume + `.*(?i:InvalidIdentityToken|AuthFailure|code = Unauthenticated)`),
		`volume "${1}" cannot be attached or mounted: the storage driver's credentials are not accepted`, "ask the cluster's administrator to correct them", false},
	{compile(namesVolume + `.*(?i:UnauthorizedOperation|AuthorizationFailed|code = PermissionDenied|not authorized)`),
		`volume "${1}" cannot be attached or mounted: the storage driver lacks a permission in the storage backend`, "ask the cluster's administrator to grant it", false},
	{compile(`(?:` + attachedElsewhere + namesVolume + `|` + namesVolume + `.*(?:VolumeInUse|current status is in-use|RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|already attached to (?:an instance|node|another|linode)|` +
		`attached to different node|attached to the wrong droplet|failed to publish volume: volume is attached|only accessible to nodes|still has VolumeAttachments on node|rbd image \S+ is still being used))`),
		`volume "${1}${2}" cannot be attached: it is attached to another node`, "wait until the pod that uses it ends, or stop that pod", true},
	{compile(`(?:AttachVolume\.\w+|attach) failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be attached to the node: ${2}`, administratorLater, true},
	{compile(namesVolume + `.* code = (?:Aborted|Unavailable|DeadlineExceeded) desc = (.*)`),
		`volume "${1}" cannot be mounted yet: ${2}`, administratorLater, true},
	{compile(`(?:MountVolume|MapVolume)\.[\w ]+ failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be mounted: ${2}`, "check the volume; if it is correct, ask the cluster's administrator", true},
	{compile(`unmounted volumes=\[([^\]]+)\].*(?:context deadline exceeded|timed out waiting for the condition)$`),
		"mounting volumes timed out: ${1}", administratorLater, true},
	{compile(`unmounted volumes=\[([^\]]+)\].*?\]: (.*)`),
		"volumes cannot be mounted (${1}): ${2}", "check the pod's volumes; if they are correct, ask the cluster's administrator", true},
}

// allVolumes matches the kubelet's summary of all volumes of a pod, which is less
// specific than the Event of a single volume.
var allVolumes = compile(`^Unable to attach or mount volumes`)

// preparedAfter is how long a node can need for the volumes and the network of a pod. On a new node, and
// while its caches are filled, the first attempts can fail.
const preparedAfter = time.Minute

// mountFindings returns why the containers have not started: volumes first, then the
// sandbox.
func (s *podView) mountFindings() []finding {
	if ready := condition(s.pod, corev1.PodReadyToStartContainers); ready != nil && ready.Status == corev1.ConditionTrue {
		return nil
	}
	past := latest(s.events, "Pulling", "Pulled", "Created", "Started")
	var found []finding
	for _, e := range lastPerVolume(recent(s.events, "FailedAttachVolume")) {
		if !past.isAfter(e.LastSeen) && !latest(s.events, "SuccessfulAttachVolume").isAfter(e.LastSeen) {
			found = append(found, finding{cause: s.volumeCause(ReasonFailedAttachVolume, e)})
		}
	}
	for _, e := range lastPerVolume(recent(s.events, "FailedMount", "FailedMapVolume", "VolumePermissionChangeInProgress")) {
		if !past.isAfter(e.LastSeen) {
			found = append(found, finding{cause: s.volumeCause(ReasonFailedMount, e)})
		}
	}
	if e := s.lastSandboxFailure(); e != nil && !past.isAfter(e.LastSeen) {
		found = append(found, finding{cause: s.sandboxCause(e)})
	}
	for i := range found {
		if c := &found[i].cause; c.Transient && c.Reason != ReasonFailedAttachVolume {
			c.startsUntil(s.pod.CreationTimestamp.Add(preparedAfter), s.Now)
		}
	}
	return found
}

// lastSandboxFailure returns the last Event about the sandbox of the pod, or nil.
func (s *podView) lastSandboxFailure() *Event {
	for i := range slices.Backward(s.events) {
		if isSandboxFailure(&s.events[i]) {
			return &s.events[i]
		}
	}
	return nil
}

// isSandboxFailure reports whether the node cannot prepare the pod, apart from its volumes.
func isSandboxFailure(e *Event) bool {
	switch e.Reason {
	case "FailedSync":
		return strings.HasPrefix(e.Note, "error determining status: ")
	case ReasonFailedCreatePodSandBox, ReasonFailedPrepareDynamicResources, "NetworkNotReady", "FailedCreatePodContainer":
		return true
	}
	return e.Reason == "Failed" && strings.HasPrefix(e.Note, "error making pod data directories: ")
}

// sandboxCause returns the cause of an Event about the sandbox of the pod.
func (s *podView) sandboxCause(e *Event) Cause {
	reason := e.Reason
	if reason != ReasonFailedPrepareDynamicResources {
		reason = ReasonFailedCreatePodSandBox
	}
	r, ofNode := sandboxText(e)
	cause := s.cause(reason, r).withEvent(e)
	if ofNode && reason == ReasonFailedCreatePodSandBox {
		cause.Node = s.pod.Spec.NodeName
	}
	return cause
}

var sandboxRules = slices.Concat(runtimeRules, []rule{
	{compile(`^error determining status: connection error: desc`),
		"the node's container runtime does not respond", administratorLater, true},
	{compile(`runtimeclass\S* "([^"]+)" not found`),
		`RuntimeClass "${1}" does not exist`, "correct runtimeClassName, or ask the cluster's administrator which ones exist", false},
	{compile(`must not contain both HostProcess and non-HostProcess containers`),
		"some of its containers are host process containers, and others are not", "set hostProcess in windowsOptions to the same value for all", false},
	{compile(`is not allowed to use ResourceClaim (\S+)`),
		`the pod has no reservation of ResourceClaim "${1}"`, "do not set nodeName, and delete the pod, so that it is scheduled again", false},
	{compile(`ResourceClaim (\S+) was not created for [Pp]od`),
		`ResourceClaim "${1}" belongs to another pod`, "delete the claim and the pod, so that both are created again", false},
	{compile(`failed to write sysctl (\S+) = .*: (.*)`),
		"the node cannot set the sysctl ${1} of the pod: ${2}", "correct securityContext.sysctls", false},
	{compile(`([A-Z]\w+) path \((\S+)\) does not exist`),
		"the node lacks ${1}, which runtimeClassName requires: ${2} does not exist", "select other nodes, or ask the cluster's administrator", false},
	{compile(`Failed to parse interface name: (.*)`),
		"the annotation k8s.v1.cni.cncf.io/networks of the pod names an interface that is not valid: ${1}", "correct the annotation", false},
	{compile(`VF pci addr is required`),
		"a network of the pod needs an SR-IOV device, and the pod has none", "request the resource of the network in resources of a container", false},
	{compile(`error dialing DHCP daemon`),
		"the DHCP daemon of the pod's network does not run on the node", administratorLater, true},
	{compile(`resource is unreasonably (\w+) (\([^)]*\))`),
		"an annotation of the pod about its bandwidth is unreasonably ${1} ${2}", "correct kubernetes.io/ingress-bandwidth and kubernetes.io/egress-bandwidth, such as 10M", false},
	{compile(`ipAddrs is not compatible with configured IPAM`),
		"the annotation cni.projectcalico.org/ipAddrs of the pod needs Calico's own IPAM, which the cluster does not use", "remove the annotation", false},
	{compile(`no pools match the required use`),
		"no address pool of Calico is for pods", "ask the cluster's administrator", false},
	{compile(`the given pool \(([^)]+)\) does not exist, or is not enabled`),
		"address pool ${1} does not exist, or is not enabled", "correct the annotation of the pod or namespace that names it, such as cni.projectcalico.org/ipv4pools", false},
	{compile(`requested IP address (\S+) is not available`),
		"the address ${1}, which the pod requests, is not available", "request another address, or wait until the pod that has it ends", true},
	{compile(`NodePrepareResources failed for ResourceClaim (\S+): (.*)`),
		`it cannot prepare the devices of ResourceClaim "${1}": ${2}`, administratorLater, true},
	{compile(`DRA driver (\S+) is not registered`),
		"driver ${1} of its ResourceClaims does not run on the node", "wait until it runs; if the problem persists, ask the cluster's administrator", true},
	{compile(`^[Ff]ailed to create pod sandbox: (?:context deadline exceeded|connection error: desc)`),
		"the node's container runtime does not respond", administratorLater, true},
	{compile(`container init was OOM-killed`),
		"the memory limit of the pod is too low to start it", "raise resources.limits.memory", false},
	{compile(`sysctl ("[^"]+") (?:is not in a separate kernel namespace|is not allowed|not allowed)`),
		"the node cannot set the sysctl ${1} for the pod alone", "remove it from securityContext.sysctls", false},
	{compile(`(?:open|write) (/proc/sys/\S+): (.*)`),
		"the node cannot set a sysctl of the pod: ${1}: ${2}", "correct securityContext.sysctls", false},
	{compile(`failed to create namespace: no space left on device`),
		"the node cannot create another network namespace", administratorLater, true},
	{compile(`failed to lookup \S+ ("[^"]+"): Link not found`),
		"the node has no interface ${1}, which a network of the pod uses", "correct master in the NetworkAttachmentDefinition, or select other nodes", false},
	{compile(`timed out waiting for (?:annotations|OVS port binding)`),
		"the network's controller has not prepared the pod in time", administratorLater, true},
	{compile(`(?i)plugin type="([^"]+)".*?: ([^:]*\bannotation\b.*)`),
		"network plugin ${1} does not accept an annotation of the pod: ${2}", "correct the annotation", false},
	{compile(`"([^"]+)" already has an IP address different from`),
		`interface "${1}" of the node has an address of another network`, `ask the cluster's administrator to delete interface "${1}" on the node, so that it is made again`, false},
	{compile(`plugin type="([^"]+)".*(?:: check that the \S+ container is running|dial unix .*(?:connection refused|no such file)|connection error: desc|failed to load flannel|loadFlannelSubnetEnv failed)`),
		"network plugin ${1} does not run on the node", administratorLater, true},
	{compile(`plugin type="([^"]+)".*\bUnauthorized$`),
		"the API server does not accept the credentials of network plugin ${1}", administratorLater, true},
	{compile(`plugin type="([^"]+)".*(?:Get|Post) "([^"]+)": (?:dial tcp \S+: )?(?:connect: )?(connection refused|i/o timeout|no route to host|x509: .*)`),
		"network plugin ${1} cannot reach ${2}: ${3}", administratorLater, true},
	{compile(`no ztunnel connection`),
		"ztunnel of the service mesh is not connected on the node", administratorLater, true},
	{compile(`Could not access KVM kernel module`),
		"the node cannot run the virtual machine that runtimeClassName requires", "select other nodes, or ask the cluster's administrator", false},
	{compile(`plugin type="([^"]+)".*(?:client timeout exceeded|TooManyRequests)`),
		"network plugin ${1} of the node is overloaded, or does not respond", administratorLater, true},
	{compile(`plugin type="([^"]+)".*incompatible CNI versions; config is "([^"]+)"`),
		"network plugin ${1} of the node does not support version ${2} of its configuration", "ask the cluster's administrator to update the plugin, or to lower cniVersion", false},
	{compile(`runtime does not support user namespaces|RuntimeClass handler "[^"]*" does not support user namespaces`),
		"the container runtime of the node does not support user namespaces", "set hostUsers to true, use another runtimeClassName, or select other nodes", false},
	{compile(`failed to find plugin "([^"]+)" in path`),
		`the program of network plugin "${1}" is missing on the node`, administratorLater, true},
	{compile(`cannot find a network-attachment-definition \(([^)]+)\) in namespace \(([^)]+)\)`),
		`NetworkAttachmentDefinition "${1}" does not exist in namespace "${2}"`, "create it, or correct the annotation k8s.v1.cni.cncf.io/networks of the pod", false},
	{compile(`cni plugin not initialized|cni config uninitialized|no networks found in|network plugin is not ready|waiting for readinessindicatorfile`),
		"the node's network plugin is not ready", administratorLater, true},
	{compile(`(?i)no (?:IP addresses|more IPs?|addresses) (?:available|left)|no available (?:IP|address)|failed to (?:assign|allocate) an? IP|could not allocate IP in range|not enough IPs available|IPPools? exhausted|IpNotEnough|IPAM.*(?:exhausted|full)|no IPs? available|insufficient.*(?:IP|ENI)|\branges? (?:is|are) (?:full|exhausted)`),
		"the node's network has no free IP address", "wait until other pods end; if the problem persists, ask the cluster's administrator for more addresses", true},
	{compile(`plugin type="([^"]+)"[^:]*(?:failed \((?:add|delete)\))?: (.*)`),
		"network plugin ${1} failed: ${2}", administratorLater, true},
	{compile(`no runtime for "([^"]+)" is configured|RuntimeHandler "([^"]+)" not supported|runtime "([^"]+)" binary not installed|failed to find runtime handler (\S+) from runtime list`),
		`the node does not have the runtime "${1}${2}${3}${4}"`, "correct runtimeClassName, or select other nodes", false},
	{compile(`(?i)pause.*(?:pull|not found|resolve)|failed to get sandbox image`),
		"the node cannot pull the image that it needs for every pod", administratorLater, true},
	{compile(`failed to reserve sandbox name|is reserved for`),
		"the node takes too long to set up its sandbox", administratorLater, true},
	{compile(`\S: no space left`), "the node's disk is full", administratorLater, true},
})

const administratorLater = "wait; if the problem persists, ask the cluster's administrator"

// sandboxText explains why the node cannot prepare a pod. It reports whether the failure is known
// to be the node's, so that other pods on it fail too.
func sandboxText(e *Event) (r explanation, ofNode bool) {
	r, known := match(sandboxRules, stripNoise(e.Note))
	if !known {
		r = explanation{message: lowerFirst(usefulEnd(stripNoise(e.Note))), advice: administratorLater}
	}
	if r.advice == administratorLater {
		r.transient = true
	}
	r.message = "the node cannot set up the pod: " + r.message
	return r, known && r.transient
}

func (s *podView) volumeCause(reason string, e *Event) Cause {
	r, ok := matchCodes(mountRules, e.Note)
	if !ok {
		r = explanation{message: usefulEnd(stripNoise(e.Note)), advice: s.eventsAdvice()}
	}
	what := "a volume"
	if m := volumeName.FindStringSubmatch(e.Note); m != nil {
		what = "volume " + quote(m[1])
	}
	r.message = strings.Replace(r.message, `volume ""`, what, 1)
	used := usedByPods.FindStringSubmatch(e.Note)
	if used != nil && s.blockedByOldPods(used[2]) {
		r.advice, r.transient = endOldPodsFirst, false
	}
	cause := s.cause(reason, r).withEvent(e)
	if used != nil {
		for _, name := range strings.Split(used[2], ", ")[:min(maxBlamed, strings.Count(used[2], ", ")+1)] {
			cause.Blames = append(cause.Blames, Object{kindPod, name})
		}
	} else {
		cause.Blames = missingIn(e.Note)
	}
	return cause
}

// maxBlamed limits the objects that a cause blames.
const maxBlamed = 3

// missingObject matches what the kubelet writes about an object that a pod refers to.
var missingObject = compile(`\b(secret|configmap) "([^"]+)" not found`)

// missingIn returns the object whose absence a text reports.
func missingIn(text string) []Object {
	m := missingObject.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	kind := "Secret"
	if m[1] == "configmap" {
		kind = "ConfigMap"
	}
	return []Object{{kind, m[2]}}
}

var volumeName = compile(namesVolume)

// lastPerVolume returns the last Event of each volume. The summary of all volumes counts
// only if there is no Event of a single volume.
func lastPerVolume(events []Event) []*Event {
	last := map[string]*Event{}
	for i := range events {
		name := ""
		if m := volumeName.FindStringSubmatch(events[i].Note); m != nil && !allVolumes.MatchString(events[i].Note) {
			name = m[1]
		}
		last[name] = &events[i]
	}
	if len(last) > 1 {
		delete(last, "")
	}
	return slices.Collect(maps.Values(last))
}
