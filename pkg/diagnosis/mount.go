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

// notCreated is the advice about a Secret that does not exist.
const notCreated = "create it, or correct its name; if a controller creates it, find out why it has not"

var mountRules = []rule{
	{name: "volume-in-use-by-other-pod", problem: passing,
		text:    compile(namesVolume + `.*ReadWriteOncePod access mode and is already in use`),
		message: `volume "${1}" cannot be mounted: another pod uses it, and its access mode is ReadWriteOncePod`,
		advice:  "wait until the other pod ends, or stop it",
		late:    "stop the other pod"},
	{name: "attacher-timeout", problem: passing,
		text:    compile(namesVolume + `.*timed out waiting for external-attacher of (\S+) CSI driver`),
		message: `volume "${1}" is not attached to the node yet: storage driver ${2} takes too long`,
		advice:  administratorLater, late: administrator},
	{name: "attach-secret-not-found", problem: lasting,
		text:    compile(namesVolume + `.*failed to load secret ("[^"]+"): secrets ("[^"]+") not found`),
		message: `volume "${1}" cannot be attached: Secret ${2} of its storage driver does not exist`,
		advice:  "ask the cluster's administrator to create it"},
	{name: "filesystem-differs", problem: lasting,
		text:    compile(namesVolume + `.*already formatted with different filesystem: .*current=(\w+), \w+:(\w+)`),
		message: `volume "${1}" cannot be mounted: its file system is ${2}, and its StorageClass requires ${3}`,
		advice:  "use a StorageClass whose file system is ${2}, or delete the claim if you do not need its files"},
	{name: "staging-path-stale", problem: passing,
		text:    compile(namesVolume + `.*Staging target path \S+ is no longer valid`),
		message: `volume "${1}" cannot be mounted: its mount on the node is no longer valid`,
		advice:  "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator"},
	{name: "secret-provider-class-not-set", problem: lasting,
		text:    compile(namesVolume + `.*secretProviderClass is not set`),
		message: `volume "${1}" cannot be mounted: it names no SecretProviderClass`,
		advice:  "set secretProviderClass in volumeAttributes of the csi volume"},
	{name: "secrets-store-not-read-only", problem: lasting,
		text:    compile(namesVolume + `.*Readonly is not true in request`),
		message: `volume "${1}" cannot be mounted: volumes of the Secrets Store must be read-only`,
		advice:  "set readOnly to true in the csi volume"},
	{name: "vault-login-refused", problem: lasting,
		text:    compile(namesVolume + `.*failed to login: .*Code: 40[13]\b`),
		message: `volume "${1}" cannot be mounted: Vault does not accept the pod's service account for the role`,
		advice:  "check roleName of the SecretProviderClass, and serviceAccountName; the administrator of Vault can tell which ones the role accepts"},
	{name: "csi-driver-not-installed", problem: lasting,
		text:    compile(namesVolume + `.*volume mode "[^"]+" not supported by driver (\S+) \(no CSIDriver object\)`),
		message: `volume "${1}" cannot be mounted: storage driver ${2} is not installed, or supports no volumes inside a pod`,
		advice:  "use a claim instead of a csi volume, or ask the cluster's administrator to install the driver"},
	{name: "block-volume-in-mounts", problem: lasting,
		text:    compile(`volume (\S+) has volumeMode Block, but is specified in volumeMounts`),
		message: `volume "${1}" is a block device, but volumeMounts lists it`,
		advice:  "list it in volumeDevices, or use a claim with volumeMode Filesystem"},
	{name: "filesystem-volume-in-devices", problem: lasting,
		text:    compile(`volume (\S+) has volumeMode Filesystem, but is specified in volumeDevices`),
		message: `volume "${1}" is a file system, but volumeDevices lists it`,
		advice:  "list it in volumeMounts, or use a claim with volumeMode Block"},
	{name: "fsgroup-file-deleted", problem: passing,
		text:    compile(namesVolume + `.*applyFSGroup failed for vol .*: no such file or directory`),
		message: `volume "${1}" cannot be mounted yet: a file was deleted while the node changed the group of the files`,
		advice:  "wait for the next attempt; to avoid this, set securityContext.fsGroupChangePolicy to OnRootMismatch",
		late:    "set securityContext.fsGroupChangePolicy to OnRootMismatch"},
	{name: "nfs-statd-not-running", problem: lasting,
		text:    compile(namesVolume + `.* is not running but is required for remote locking`),
		message: `volume "${1}" cannot be mounted: the node cannot lock files of NFS version 3`,
		advice:  "add the mount option nfsvers=4.1 or nolock, or ask the cluster's administrator to run rpc.statd on the node"},
	{name: "replicas-unschedulable", problem: lasting,
		text:    compile(namesVolume + `.* with some un-schedulable replicas`),
		message: `volume "${1}" cannot be attached: the storage has no place for all of its replicas`,
		advice:  "ask the cluster's administrator for more storage, or for fewer replicas"},
	{name: "driver-connection-error", problem: passing,
		text:    compile(namesVolume + `.*connection error: desc = `),
		message: `volume "${1}" cannot be attached or mounted: the storage driver does not respond`,
		advice:  administratorLater, late: administrator},
	{name: "efs-no-mount-target-in-zone", problem: lasting,
		text:    compile(namesVolume + `.*No matching mount target in the az ([\w-]+)`),
		message: `volume "${1}" cannot be mounted: its file system has no mount target in zone ${2}, where the node is`,
		advice:  "run the pod in another zone, or ask the cluster's administrator for a mount target there"},
	{name: "ceph-cluster-unknown", problem: lasting,
		text:    compile(namesVolume + `.*missing configuration for cluster ID ("[^"]+")`),
		message: `volume "${1}" cannot be mounted: the storage driver does not know Ceph cluster ${2}`,
		advice:  "ask the cluster's administrator to correct clusterID of the volume, or the configuration of the driver"},
	{name: "fsgroup-not-permitted", problem: lasting,
		text:    compile(namesVolume + `.*applyFSGroup failed for vol .*: (operation not permitted|read-only file system)`),
		message: `volume "${1}" cannot be mounted: the node may not change the group of its files: ${2}`,
		advice:  "remove securityContext.fsGroup, or use a volume that supports it"},
	{name: "fuse-server-ended", problem: lasting,
		text:    compile(namesVolume + `.*transport endpoint is not connected`),
		message: `volume "${1}" cannot be mounted: the program on the node that serves it has ended`,
		advice:  "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator"},
	{name: "gcsfuse-sidecar-missing", problem: lasting,
		text:    compile(namesVolume + `.*failed to find the sidecar container in Pod spec`),
		message: `volume "${1}" cannot be mounted: the pod lacks the sidecar container of Cloud Storage FUSE`,
		advice:  `add the annotation gke-gcsfuse/volumes: "true" to the pod`},
	{name: "gcsfuse-sidecar-not-injected", problem: lasting,
		text:    compile(namesVolume + `.*the webhook failed to inject the sidecar container`),
		message: `volume "${1}" cannot be mounted: the pod was created without the sidecar container of Cloud Storage FUSE`,
		advice:  "delete the pod, so that it is created again; if the problem persists, ask the cluster's administrator"},
	{name: "bucket-not-found", problem: lasting,
		text:    compile(namesVolume + `.*failed to get GCS bucket ("[^"]+"): .*bucket doesn't exist`),
		message: `volume "${1}" cannot be mounted: bucket ${2} does not exist`,
		advice:  "correct the name of the bucket"},
	{name: "bucket-access-denied", problem: lasting,
		text:    compile(namesVolume + `.*(?:failed to get GCS bucket ("[^"]+"): .*\b403\b|ListObjectsV2 failed for bucket (\S+) .*(?:Forbidden|Access ?Denied))`),
		message: `volume "${1}" cannot be mounted: access to bucket ${2}${3} is denied`,
		advice:  "allow the pod's service account, or the storage driver, to use the bucket, or correct its name"},
	{name: "storage-service-identity", problem: lasting,
		text:    compile(namesVolume + `.*failed to prepare storage service: (.*)`),
		message: `volume "${1}" cannot be mounted: the storage service cannot be used with the pod's service account: ${2}`,
		advice:  "check the annotations and permissions of the service account"},
	{name: "fuse-container-oom", problem: lasting,
		text:    compile(namesVolume + `.*(?:sidecar|"[^"]*") container terminated due to OOMKilled`),
		message: `volume "${1}" cannot be mounted: the container that serves it ran out of memory`,
		advice:  "raise its memory limit, for the sidecar container with the annotation gke-gcsfuse/memory-limit of the pod"},
	{name: "volume-plugin-not-found", problem: lasting,
		text:    compile(namesVolume + ` err=no volume plugin matched|FindAttachablePluginBySpec failed ` + namesVolume),
		message: `volume "${1}${2}" cannot be mounted: the cluster does not support its type`,
		advice:  "use a claim or a csi volume"},
	{name: "disk-being-detached", problem: passing,
		text:    compile(namesVolume + `.*AttachDiskWhileBeingDetached`),
		message: `volume "${1}" cannot be attached yet: its disk is still being detached from a node`,
		advice:  administratorLater, late: administrator},
	{name: "mount-option-not-valid", problem: lasting,
		text:    compile(namesVolume + `.*an incorrect mount option was specified`),
		message: `volume "${1}" cannot be mounted: one of its mount options is not valid`,
		advice:  "correct mountOptions of its PersistentVolume or StorageClass"},
	{name: "device-busy", problem: lasting,
		text:    compile(namesVolume + `.*(?: is apparently in use by the system|already mounted or mount point busy)`),
		message: `volume "${1}" cannot be mounted: its device or its directory on the node is in use`,
		advice:  "ask the cluster's administrator what uses it; it is often multipathd"},
	{name: "lun-not-found", problem: passing,
		text:    compile(namesVolume + `.*failed to find disk on lun`),
		message: `volume "${1}" cannot be mounted: the node does not see the disk, although it is attached`,
		advice:  administratorLater, late: administrator},
	{name: "disk-type-not-compatible", problem: lasting,
		text:    compile(namesVolume + `.* is not a compatible disk type with the machine type ([\w-]+)`),
		message: `volume "${1}" cannot be attached: machines of type ${2} cannot use this type of disk`,
		advice:  "use a storage class with another type of disk, or select other nodes"},
	{name: "secrets-store-provider-missing", problem: passing,
		text:    compile(namesVolume + `.*provider not found: provider "([^"]+)"`),
		message: `volume "${1}" cannot be mounted: provider "${2}" of the external secret store does not run on the node`,
		advice:  "correct provider in the SecretProviderClass, or ask the cluster's administrator to run the provider on the node"},
	{name: "driver-deadline-exceeded", problem: passing,
		text:    compile(namesVolume + ` : (?:rpc error: code = DeadlineExceeded desc = )?context deadline exceeded$`),
		message: `volume "${1}" cannot be attached or mounted yet: the storage driver takes too long`,
		advice:  administratorLater, late: administrator},
	{name: "volume-not-attached-yet", problem: passing,
		text:    compile(`(?:Volume not attached according to node status ` + namesVolume + `|` + namesVolume + `.*(?:hasn't been attached yet|is not attached for volume attachment))`),
		message: `volume "${1}${2}" is not attached to the node yet`,
		advice:  administratorLater, late: administrator},
	{name: "zone-mismatch", problem: lasting,
		text:    compile(namesVolume + `.*(?:not in the same (?:availability )?zone|because it is not in zone|ZoneMismatch)`),
		message: `volume "${1}" cannot be attached: it is in another zone than the pod's node`,
		advice:  "delete the pod, so that it is scheduled again, and do not set nodeName; if the problem persists, ask the cluster's administrator"},
	{name: "volume-faulted", problem: lasting,
		text:    compile(namesVolume + `.*volume is faulted`),
		message: `volume "${1}" cannot be attached: all replicas of its data have failed`,
		advice:  "ask the cluster's administrator to repair it, or restore the volume from a backup"},
	{name: "rbd-features-not-supported", problem: lasting,
		text:    compile(namesVolume + `.*RBD image feature set mismatch`),
		message: `volume "${1}" cannot be mounted: the kernel of the node does not support all features of the RBD image`,
		advice:  "ask the cluster's administrator to change imageFeatures of the StorageClass, or to update the nodes"},
	{name: "volume-service-account-not-found", problem: lasting,
		text:    compile(namesVolume + `.*serviceaccounts "([^"]+)" not found`),
		message: `volume "${1}" cannot be mounted: service account "${2}" of the pod does not exist`,
		advice:  "create it again, or correct serviceAccountName"},
	{name: "service-account-token-fails", problem: passing,
		text:    compile(namesVolume + `.*failed to fetch token: (.*)`),
		message: `volume "${1}" cannot be mounted yet: the node gets no token for the pod's service account: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "root-ca-not-found", problem: passing,
		text:    compile(namesVolume + `.*configmap "kube-root-ca\.crt" not found`),
		message: `volume "${1}" cannot be mounted yet: the namespace has no ConfigMap "kube-root-ca.crt", which the control plane creates`,
		advice:  administratorLater, late: administrator},
	{name: "object-not-registered", problem: passing,
		text:    compile(namesVolume + `.*object ("[^"]+")/("[^"]+") not registered`),
		message: `volume "${1}" cannot be mounted yet: the node has not loaded ${3}`,
		advice:  administratorLater, late: administrator},
	{name: "pod-certificate-refused", problem: lasting,
		text:    compile(namesVolume + `.*PodCertificateRequest was permanently (?:denied|failed): (.*)`),
		message: `volume "${1}" cannot be mounted: the certificate of the pod is refused: ${2}`,
		advice:  "correct the podCertificate source of the volume, or ask the administrator of the signer"},
	{name: "pod-certificate-pending", problem: passing,
		text:    compile(namesVolume + `.*credential bundle is not issued yet`),
		message: `volume "${1}" cannot be mounted yet: the certificate of the pod is not issued yet`,
		advice:  "wait; if the problem persists, check that the signer of its podCertificate source runs",
		late:    "check that the signer of its podCertificate source runs"},
	{name: "inline-volume-not-supported", problem: lasting,
		text:    compile(namesVolume + `.*volume mode "[^"]+" not supported by driver (\S+)`),
		message: `volume "${1}" cannot be mounted: storage driver ${2} supports no volumes inside a pod`,
		advice:  "use a claim instead of a csi volume"},
	{name: "huge-pages-not-requested", problem: lasting,
		text:    compile(namesVolume + `.*there is no resource request for huge pages`),
		message: `volume "${1}" cannot be mounted: it has a medium of huge pages, and no container requests huge pages`,
		advice:  "request hugepages in resources of a container, or use another medium"},
	{name: "mount-options-not-supported", problem: lasting,
		text:    compile(namesVolume + `.*mount options are not supported for this volume type`),
		message: `volume "${1}" cannot be mounted: its type does not support mount options`,
		advice:  "remove mountOptions from its PersistentVolume and StorageClass"},
	{name: "local-path-not-found", problem: lasting,
		text:    compile(namesVolume + `.*path ("[^"]+") does not exist`),
		message: `volume "${1}" cannot be mounted: the node has no directory ${2}`,
		advice:  "ask the cluster's administrator to create it; if the node was replaced, the data is lost"},
	{name: "storage-server-denies", problem: lasting,
		text:    compile(namesVolume + `.*mount error(?:\(13\)|[ :]+13\b)`),
		message: `volume "${1}" cannot be mounted: the storage server denies access`,
		advice:  "check the user and password in the volume's Secret; if they are correct, ask the cluster's administrator"},
	{name: "storage-server-path-not-found", problem: lasting,
		text:    compile(namesVolume + `.*(?:mount error(?:\(2\)|[ :]+2\b)|reason given by server: No such file or directory)`),
		message: `volume "${1}" cannot be mounted: the storage server has no such path or share`,
		advice:  "check the path of the volume, or create it on the server"},
	{name: "storage-server-timeout", problem: passing,
		text:    compile(namesVolume + `.*(?:mount error(?:\(11\d\)|[ :]+11\d\b)|mount error: no mds server is up|mount volume \S+ to \S+ timeout after|rados: ret=-110|rbd: map failed: \(110\))`),
		message: `volume "${1}" cannot be mounted: the storage server does not respond`,
		advice:  "check the server of the volume, or wait until it is available",
		late:    "check the server of the volume, or ask the cluster's administrator whether the node can reach it"},
	{name: "nfs-version-not-supported", problem: lasting,
		text:    compile(namesVolume + `.*(?i:mount\.nfs: (?:Protocol not supported|requested NFS version or transport protocol is not supported))`),
		message: `volume "${1}" cannot be mounted: the NFS server does not support this version of NFS`,
		advice:  "correct the mount option nfsvers"},
	{name: "storage-server-host-not-found", problem: passing,
		text:    compile(namesVolume + `.*(?i:failed to resolve (?:server )?\S+|could not resolve address for \S+)`),
		message: `volume "${1}" cannot be mounted: the host name of the storage server cannot be resolved`,
		advice:  "check the server or file system ID of the volume; if it is correct, ask the cluster's administrator"},
	{name: "volume-marked-for-deletion", problem: lasting,
		text:    compile(namesVolume + ` : PersistentVolume "[^"]+" is marked for deletion`),
		message: `volume "${1}" cannot be attached: it is being deleted`,
		advice:  "use another claim; if you need the data, ask the cluster's administrator to save it first"},
	{name: "mounted-claim-being-deleted", problem: passing,
		text:    compile(`error processing PVC [^/\s]+/(\S+): PVC is being deleted`),
		message: `claim "${1}" that the pod mounts is being deleted`,
		advice:  replaceClaim},
	{name: "mounted-claim-not-bound", problem: passing,
		text:    compile(`error processing PVC [^/\s]+/(\S+): PVC is not bound`),
		message: `claim "${1}" that the pod mounts has no volume`,
		advice:  "wait until it is bound; its Events say why it is not",
		late:    "find out in its Events why it is not bound"},
	{name: "mounted-claim-not-found", problem: lasting,
		text:    compile(`error processing PVC [^/\s]+/(\S+): failed to fetch PVC from API server: persistentvolumeclaims "[^"]+" not found`),
		message: `claim "${1}" that the pod mounts does not exist`,
		advice:  "create it, or correct its name"},
	{name: "mounted-claim-not-readable", problem: passing,
		text:    compile(`error processing PVC [^/\s]+/(\S+): failed to fetch PVC from API server: .*no relationship found between node`),
		message: `the node cannot read claim "${1}"`,
		advice:  administratorLater, late: administrator},
	{name: "mounted-claim-fails", problem: passing,
		text:    compile(`error processing PVC ([a-z0-9-]+)/([a-z0-9.-]+): (.*)`),
		message: `claim "${2}" cannot be mounted: ${3}`,
		advice:  "check the claim (kubectl describe pvc -n ${1} ${2}); if it is correct, ask the cluster's administrator"},
	{name: "volume-attachment-not-found", problem: passing,
		text:    compile(namesVolume + `.* has GET error for volume attachment (\S+): .* not found`),
		message: `volume "${1}" is not attached to the node: VolumeAttachment "${2}" does not exist`,
		advice:  "wait until the volume is attached again; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "volume-attachment-not-readable", problem: passing,
		text:    compile(namesVolume + `.* has GET error for volume attachment (\S+): .*no relationship found between node`),
		message: `volume "${1}" cannot be mounted: the node cannot read VolumeAttachment "${2}"`,
		advice:  administratorLater, late: administrator},
	{name: "ownership-change-slow", problem: passing,
		text:    compile(`^Setting volume ownership for `),
		message: "the node changes the owner of the files in a volume, which takes long",
		advice:  "wait; to avoid this, set securityContext.fsGroupChangePolicy to OnRootMismatch",
		late:    "set securityContext.fsGroupChangePolicy to OnRootMismatch"},
	{name: "secret-provider-class-not-found", problem: lasting,
		text:    compile(namesVolume + `.*failed to get secretproviderclass [^/\s]+/([^,\s]+).* not found`),
		message: `volume "${1}" cannot be mounted: SecretProviderClass "${2}" does not exist`,
		advice:  "create it, or correct its name"},
	{name: "secrets-store-fails", problem: passing,
		text:    compile(namesVolume + `.*failed to mount secrets store objects for pod [^,]*, err: (?:rpc error: code = \w+ desc = )?(?:failed to mount objects, error: )?(.*)`),
		message: `volume "${1}" cannot be mounted: the external secret store answers: ${2}`,
		advice:  "check the SecretProviderClass, and the permissions of the pod's service account in the store"},
	{name: "expansion-fails-at-mount", problem: passing,
		text:    compile(`failed while expanding volume ` + namesVolume + ` : (?:Expander\.NodeExpand failed to expand the volume ?:? )?(?:rpc error: code = \w+ desc = )?(.*)`),
		message: `volume "${1}" cannot be mounted, because its file system cannot be resized: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "volume-node-affinity", problem: lasting,
		text:    compile(`NodeAffinity check failed ` + namesVolume),
		message: `volume "${1}" cannot be mounted: the pod's node cannot use it`,
		advice:  "delete the pod, so that it is scheduled again, and do not set nodeName"},
	{name: "volume-references-not-found", problem: lasting,
		text:    compile(mayNameVolume + ` : \[((?:(?:configmap|secret) "[^"]+" not found(?:, )?){2,})\]$`),
		message: `volume "${1}" cannot be mounted: ${2}`,
		advice:  "create them, or correct their names"},
	{name: "volume-configmap-not-found", problem: lasting,
		text:    compile(mayNameVolume + `.*configmap "([^"]+)" not found`),
		message: `volume "${1}" cannot be mounted: ConfigMap "${2}" does not exist`,
		advice:  "create it, or correct its name"},
	{name: "volume-secret-not-found", problem: lasting,
		text:    compile(mayNameVolume + `.*(?:secret|could not get secret\([^)]*\): secrets) "([^"]+)" not found`),
		message: `volume "${1}" cannot be mounted: Secret "${2}" does not exist`,
		advice:  notCreated},
	{name: "volume-key-not-found", problem: lasting,
		text:    compile(mayNameVolume + `.*references non-existent (config|secret) key: (\S+)`),
		message: `volume "${1}" cannot be mounted: key "${3}" does not exist in its ConfigMap or Secret`,
		advice:  "add the key, or correct its name"},
	{name: "volume-cache-not-synced", problem: passing,
		text:    compile(mayNameVolume + `.*failed to sync (\w+) cache`),
		message: `volume "${1}" cannot be mounted yet: the node has not loaded the ${2}`,
		advice:  "wait", late: administrator},
	{name: "host-path-type-differs", problem: lasting,
		text:    compile(mayNameVolume + `.*hostPath type check failed: (\S+) is not a (\w+)`),
		message: `volume "${1}" cannot be mounted: ${2} of the node is not a ${3}`,
		advice:  "correct the path, or use another kind of volume"},
	{name: "volume-used-on-other-node", problem: passing,
		text:    usedByPods,
		message: `volume "${1}" cannot be attached: pods on another node use it: ${2}`,
		advice:  "wait until these pods end, or stop them; if one of them does not end, check its node",
		late:    "stop these pods; if one of them does not end, check its node"},
	{name: "volume-used-in-other-namespace", problem: passing,
		text:    compile(attachedElsewhere + namesVolume + `.* used by \d+ pod\(s\) in different namespaces`),
		message: `volume "${1}" cannot be attached: a pod of another namespace uses it on another node`,
		advice:  "wait until that pod ends; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "csi-driver-not-registered", problem: passing,
		text:    compile(namesVolume + `.*driver name (\S+) not found in the list of registered CSI drivers`),
		message: `volume "${1}" cannot be mounted: the storage driver ${2} does not run on the pod's node`,
		advice:  "wait until it runs; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "csi-node-without-driver", problem: passing,
		text:    compile(namesVolume + `.* CSINode \S+ does not contain driver (\S+)`),
		message: `volume "${1}" cannot be attached: the storage driver ${2} does not run on the pod's node`,
		advice:  "wait until it runs; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "volume-operation-pending", problem: passing,
		text:    compile(namesVolume + `.*(?i:operation with the given volume .* already exists|volume attachment is being de(?:leted|tached))`),
		message: `volume "${1}" cannot be attached or mounted yet: an earlier operation on it has not ended`,
		advice:  administratorLater, late: administrator},
	{name: "filesystem-type-unknown", problem: lasting,
		text:    compile(namesVolume + `.*(?:you might need a |unknown filesystem type)`),
		message: `volume "${1}" cannot be mounted: the node cannot mount this type of file system`,
		advice:  "check fsType; for NFS or CIFS, ask the cluster's administrator to install its client on the nodes"},
	{name: "filesystem-damaged", problem: lasting,
		text:    compile(namesVolume + `.*(?:found errors on device|can't read superblock|Structure needs cleaning)`),
		message: `volume "${1}" cannot be mounted: its file system is damaged`,
		advice:  "ask the cluster's administrator to repair it, or restore the volume from a backup"},
	{name: "filesystem-not-readable", problem: lasting,
		text:    compile(namesVolume + `.*(?i:wrong fs type|bad option|bad superblock)`),
		message: `volume "${1}" cannot be mounted: its file system cannot be read`,
		advice:  "check fsType and mountOptions, or restore the volume from a backup"},
	{name: "nfs-access-denied", problem: lasting,
		text:    compile(namesVolume + `.*((?i:mount\.nfs: access denied|access denied by server|mount\.nfs: Operation not permitted|reason given by server: Permission denied).*)`),
		message: `volume "${1}" cannot be mounted: the NFS server denies access: ${2}`,
		advice:  "check the server's exports and the path"},
	{name: "nfs-timeout", problem: passing,
		text:    compile(namesVolume + `.*(?i:mount\.nfs4?: Connection (?:timed out|refused|reset by peer)|No route to host|Stale file handle)`),
		message: `volume "${1}" cannot be mounted: the NFS server does not respond`,
		advice:  "check server and path, or wait until the server is available",
		late:    "check server and path, or ask the cluster's administrator whether the node can reach the server"},
	{name: "volume-not-found-in-backend", problem: lasting,
		text:    compile(namesVolume + `.*(?i:\bvolume(?: with ID)?:? ["'\[]?[^\s"'\]]+["'\]]? (?:is |was )?not found|\bvolume not found|could not find volume|InvalidVolume\.NotFound)`),
		message: `volume "${1}" cannot be attached or mounted: the storage backend does not have it`,
		advice:  "ask the cluster's administrator to restore it from a backup; delete the claim only if you do not need its files"},
	{name: "volume-limit-reached", problem: passing,
		text:    compile(namesVolume + `.*(?i:exceeded? .*(?:attach|volume).*limit|Exceeded limit '[^']*' on resource|volume limit has been reached|AttachmentLimitExceeded|max(?:imum)? number of (?:volumes|attachments)|max.*volumes? (?:already )?attached|maximum number of data disks)`),
		message: `volume "${1}" cannot be attached: the node has as many volumes as it can have`,
		advice:  "wait until the pod runs on another node; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "driver-without-credentials", problem: lasting,
		text:    compile(namesVolume + `.*(?:NoCredentialProviders|no EC2 IMDS role found)`),
		message: `volume "${1}" cannot be attached or mounted: the storage driver has no credentials`,
		advice:  "ask the cluster's administrator to give it a role"},
	{name: "driver-credentials-refused", problem: lasting,
		text:    compile(namesVolume + `.*(?i:InvalidIdentityToken|AuthFailure|code = Unauthenticated)`),
		message: `volume "${1}" cannot be attached or mounted: the storage driver's credentials are not accepted`,
		advice:  "ask the cluster's administrator to correct them"},
	{name: "driver-permission-denied", problem: lasting,
		text:    compile(namesVolume + `.*((?i:UnauthorizedOperation|AuthorizationFailed|code = PermissionDenied|not authorized).*)`),
		message: `volume "${1}" cannot be attached or mounted: the storage driver lacks a permission in the storage backend: ${2}`,
		advice:  "ask the cluster's administrator to grant it"},
	{name: "volume-attached-elsewhere", problem: passing,
		text: compile(`(?:` + attachedElsewhere + namesVolume + `|` + namesVolume + `.*(?:VolumeInUse|current status is in-use|RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|already attached to (?:an instance|node|another|linode)|` +
			`attached to different node|attached to the wrong droplet|failed to publish volume: volume is attached|only accessible to nodes|still has VolumeAttachments on node|rbd image \S+ is still being used))`),
		message: `volume "${1}${2}" cannot be attached: it is attached to another node`,
		advice:  "wait until the pod that uses it ends, or stop that pod",
		late:    "stop the pod that uses it; if there is none, ask the cluster's administrator"},
	{name: "attach-fails", problem: passing,
		text:    compile(`(?:AttachVolume\.\w+|attach) failed ` + namesVolume + ` ?: ?(.*)`),
		message: `volume "${1}" cannot be attached to the node: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "mount-retried", problem: passing,
		text:    compile(namesVolume + `.* code = (?:Aborted|Unavailable|DeadlineExceeded) desc = (.*)`),
		message: `volume "${1}" cannot be mounted yet: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "mount-fails", problem: passing,
		text:    compile(`(?:MountVolume|MapVolume)\.[\w ]+ failed ` + namesVolume + ` ?: ?(.*)`),
		message: `volume "${1}" cannot be mounted: ${2}`,
		advice:  "check the volume; if it is correct, ask the cluster's administrator"},
	{name: "mounts-timed-out", problem: passing,
		text:    compile(`unmounted volumes=\[([^\]]+)\].*(?:context deadline exceeded|timed out waiting for the condition)$`),
		message: "mounting volumes timed out: ${1}",
		advice:  administratorLater, late: administrator},
	{name: "mounts-fail", problem: passing,
		text:    compile(`unmounted volumes=\[([^\]]+)\].*?\]: (.*)`),
		message: "volumes cannot be mounted (${1}): ${2}",
		advice:  "check the pod's volumes; if they are correct, ask the cluster's administrator"},
}

// allVolumes matches the kubelet's summary of all volumes of a pod, which is less
// specific than the Event of a single volume.
var allVolumes = compile(`^Unable to attach or mount volumes`)

// preparedAfter is how long a node can need for the volumes and the network of a pod. While its caches are
// filled, the first attempts can fail.
const preparedAfter = 10 * time.Second

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

// networkRules match the other errors about the sandbox of a pod and its network.
var networkRules = []rule{
	{name: "sandbox-runtime-down", problem: passing,
		text:    compile(`^error determining status: connection error: desc`),
		message: "the node's container runtime does not respond",
		advice:  administratorLater, late: administrator},
	{name: "sandbox-runtime-class-not-found", problem: lasting, means: MeansMissingRuntimeClass,
		text:    compile(`runtimeclass\S* "([^"]+)" not found`),
		message: `RuntimeClass "${1}" does not exist`,
		advice:  "correct runtimeClassName, or ask the cluster's administrator which ones exist"},
	{name: "host-process-mixed", problem: lasting,
		text:    compile(`must not contain both HostProcess and non-HostProcess containers`),
		message: "some of its containers are host process containers, and others are not",
		advice:  "set hostProcess in windowsOptions to the same value for all"},
	{name: "resource-claim-not-reserved", problem: lasting,
		text:    compile(`is not allowed to use ResourceClaim (\S+)`),
		message: `the pod has no reservation of ResourceClaim "${1}"`,
		advice:  "do not set nodeName, and delete the pod, so that it is scheduled again"},
	{name: "resource-claim-of-other-pod", problem: lasting,
		text:    compile(`ResourceClaim (\S+) was not created for [Pp]od`),
		message: `ResourceClaim "${1}" belongs to another pod`,
		advice:  "delete the claim and the pod, so that both are created again"},
	{name: "sysctl-write-fails", problem: lasting,
		text:    compile(`failed to write sysctl (\S+) = .*: (.*)`),
		message: "the node cannot set the sysctl ${1} of the pod: ${2}",
		advice:  "correct securityContext.sysctls"},
	{name: "kata-path-not-found", problem: lasting,
		text:    compile(`([A-Z]\w+) path \((\S+)\) does not exist`),
		message: "the node lacks ${1}, which runtimeClassName requires: ${2} does not exist",
		advice:  "select other nodes, or ask the cluster's administrator"},
	{name: "multus-interface-not-valid", problem: lasting,
		text:    compile(`Failed to parse interface name: (.*)`),
		message: "the annotation k8s.v1.cni.cncf.io/networks of the pod names an interface that is not valid: ${1}",
		advice:  "correct the annotation"},
	{name: "sriov-device-missing", problem: lasting,
		text:    compile(`VF pci addr is required`),
		message: "a network of the pod needs an SR-IOV device, and the pod has none",
		advice:  "request the resource of the network in resources of a container"},
	{name: "dhcp-daemon-down", problem: passing,
		text:    compile(`error dialing DHCP daemon`),
		message: "the DHCP daemon of the pod's network does not run on the node",
		advice:  administratorLater, late: administrator},
	{name: "bandwidth-unreasonable", problem: lasting,
		text:    compile(`resource is unreasonably (\w+) (\([^)]*\))`),
		message: "an annotation of the pod about its bandwidth is unreasonably ${1} ${2}",
		advice:  "correct kubernetes.io/ingress-bandwidth and kubernetes.io/egress-bandwidth, such as 10M"},
	{name: "calico-ipam-needed", problem: lasting,
		text:    compile(`ipAddrs is not compatible with configured IPAM`),
		message: "the annotation cni.projectcalico.org/ipAddrs of the pod needs Calico's own IPAM, which the cluster does not use",
		advice:  "remove the annotation"},
	{name: "calico-no-pool-for-pods", problem: lasting,
		text:    compile(`no pools match the required use`),
		message: "no address pool of Calico is for pods",
		advice:  "ask the cluster's administrator"},
	{name: "calico-pool-not-found", problem: lasting,
		text:    compile(`the given pool \(([^)]+)\) does not exist, or is not enabled`),
		message: "address pool ${1} does not exist, or is not enabled",
		advice:  "correct the annotation of the pod or namespace that names it, such as cni.projectcalico.org/ipv4pools"},
	{name: "calico-address-not-available", problem: passing,
		text:    compile(`requested IP address (\S+) is not available`),
		message: "the address ${1}, which the pod requests, is not available",
		advice:  "request another address, or wait until the pod that has it ends",
		late:    "request another address, or stop the pod that has it"},
	{name: "devices-not-prepared", problem: passing,
		text:    compile(`NodePrepareResources failed for ResourceClaim (\S+): (.*)`),
		message: `it cannot prepare the devices of ResourceClaim "${1}": ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "dra-driver-not-registered", problem: passing,
		text:    compile(`DRA driver (\S+) is not registered`),
		message: "driver ${1} of its ResourceClaims does not run on the node",
		advice:  "wait until it runs; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "sandbox-runtime-timeout", problem: passing,
		text:    compile(`^[Ff]ailed to create pod sandbox: (?:context deadline exceeded|connection error: desc)`),
		message: "the node's container runtime does not respond",
		advice:  administratorLater, late: administrator},
	{name: "sandbox-oom-killed", problem: lasting,
		text:    compile(`container init was OOM-killed`),
		message: "the memory limit of the pod is too low to start it",
		advice:  "raise resources.limits.memory"},
	{name: "sandbox-sysctl-not-namespaced", problem: lasting,
		text:    compile(`sysctl ("[^"]+") (?:is not in a separate kernel namespace|is not allowed|not allowed)`),
		message: "the node cannot set the sysctl ${1} for the pod alone",
		advice:  "remove it from securityContext.sysctls"},
	{name: "sysctl-file-fails", problem: lasting,
		text:    compile(`(?:open|write) (/proc/sys/\S+): (.*)`),
		message: "the node cannot set a sysctl of the pod: ${1}: ${2}",
		advice:  "correct securityContext.sysctls"},
	{name: "network-namespace-not-created", problem: passing,
		text:    compile(`failed to create namespace: no space left on device`),
		message: "the node cannot create another network namespace",
		advice:  administratorLater, late: administrator},
	{name: "network-link-not-found", problem: lasting,
		text:    compile(`failed to lookup \S+ ("[^"]+"): Link not found`),
		message: "the node has no interface ${1}, which a network of the pod uses",
		advice:  "correct master in the NetworkAttachmentDefinition, or select other nodes"},
	{name: "ovn-not-ready", problem: passing,
		text:    compile(`timed out waiting for (?:annotations|OVS port binding)`),
		message: "the network's controller has not prepared the pod in time",
		advice:  administratorLater, late: administrator},
	{name: "cni-annotation-refused", problem: lasting,
		text:    compile(`(?i)plugin type="([^"]+)".*?: ([^:]*\bannotation\b.*)`),
		message: "network plugin ${1} does not accept an annotation of the pod: ${2}",
		advice:  "correct the annotation"},
	{name: "cni-bridge-address-differs", problem: lasting,
		text:    compile(`"([^"]+)" already has an IP address different from`),
		message: `interface "${1}" of the node has an address of another network`,
		advice:  `ask the cluster's administrator to delete interface "${1}" on the node, so that it is made again`},
	{name: "cni-plugin-not-running", problem: passing,
		text:    compile(`plugin type="([^"]+)".*(?:: check that the \S+ container is running|dial unix .*(?:connection refused|no such file)|connection error: desc|failed to load flannel|loadFlannelSubnetEnv failed)`),
		message: "network plugin ${1} does not run on the node",
		advice:  administratorLater, late: administrator},
	{name: "cni-plugin-unauthorized", problem: passing,
		text:    compile(`plugin type="([^"]+)".*\bUnauthorized$`),
		message: "the API server does not accept the credentials of network plugin ${1}",
		advice:  administratorLater, late: administrator},
	{name: "cni-plugin-cannot-reach-apiserver", problem: passing,
		text:    compile(`plugin type="([^"]+)".*(?:Get|Post) "([^"]+)": (?:dial tcp \S+: )?(?:connect: )?(connection refused|i/o timeout|no route to host|x509: .*)`),
		message: "network plugin ${1} cannot reach ${2}: ${3}",
		advice:  administratorLater, late: administrator},
	{name: "ztunnel-not-connected", problem: passing,
		text:    compile(`no ztunnel connection`),
		message: "ztunnel of the service mesh is not connected on the node",
		advice:  administratorLater, late: administrator},
	{name: "kvm-not-available", problem: lasting,
		text:    compile(`Could not access KVM kernel module`),
		message: "the node cannot run the virtual machine that runtimeClassName requires",
		advice:  "select other nodes, or ask the cluster's administrator"},
	{name: "cni-plugin-overloaded", problem: passing,
		text:    compile(`plugin type="([^"]+)".*(?:client timeout exceeded|TooManyRequests)`),
		message: "network plugin ${1} of the node is overloaded, or does not respond",
		advice:  administratorLater, late: administrator},
	{name: "cni-version-not-supported", problem: lasting,
		text:    compile(`plugin type="([^"]+)".*incompatible CNI versions; config is "([^"]+)"`),
		message: "network plugin ${1} of the node does not support version ${2} of its configuration",
		advice:  "ask the cluster's administrator to update the plugin, or to lower cniVersion"},
	{name: "sandbox-user-namespaces-not-supported", problem: lasting,
		text:    compile(`runtime does not support user namespaces|RuntimeClass handler "[^"]*" does not support user namespaces`),
		message: "the container runtime of the node does not support user namespaces",
		advice:  "set hostUsers to true, use another runtimeClassName, or select other nodes"},
	{name: "cni-plugin-binary-missing", problem: passing,
		text:    compile(`failed to find plugin "([^"]+)" in path`),
		message: `the program of network plugin "${1}" is missing on the node`,
		advice:  administratorLater, late: administrator},
	{name: "network-attachment-not-found", problem: lasting,
		text:    compile(`cannot find a network-attachment-definition \(([^)]+)\) in namespace \(([^)]+)\)`),
		message: `NetworkAttachmentDefinition "${1}" does not exist in namespace "${2}"`,
		advice:  "create it, or correct the annotation k8s.v1.cni.cncf.io/networks of the pod"},
	{name: "cni-not-initialized", problem: passing,
		text:    compile(`cni plugin not initialized|cni config uninitialized|no networks found in|network plugin is not ready|waiting for readinessindicatorfile`),
		message: "the node's network plugin is not ready",
		advice:  administratorLater, late: administrator},
	{name: "no-free-ip-address", problem: passing,
		text:    compile(`(?i)no (?:IP addresses|more IPs?|addresses) (?:available|left)|no available (?:IP|address)|failed to (?:assign|allocate) an? IP|could not allocate IP in range|not enough IPs available|IPPools? exhausted|IpNotEnough|IPAM.*(?:exhausted|full)|no IPs? available|insufficient.*(?:IP|ENI)|\branges? (?:is|are) (?:full|exhausted)`),
		message: "the node's network has no free IP address",
		advice:  "wait until other pods end; if the problem persists, ask the cluster's administrator for more addresses",
		late:    "ask the cluster's administrator for more addresses"},
	{name: "cni-plugin-fails", problem: passing,
		text:    compile(`plugin type="([^"]+)"[^:]*(?:failed \((?:add|delete)\))?: (.*)`),
		message: "network plugin ${1} failed: ${2}",
		advice:  administratorLater, late: administrator},
	{name: "runtime-handler-not-found", problem: lasting,
		text:    compile(`no runtime for "([^"]+)" is configured|RuntimeHandler "([^"]+)" not supported|runtime "([^"]+)" binary not installed|failed to find runtime handler (\S+) from runtime list`),
		message: `the node does not have the runtime "${1}${2}${3}${4}"`,
		advice:  "correct runtimeClassName, or select other nodes"},
	{name: "pause-image-not-pulled", problem: passing,
		text:    compile(`(?i)pause.*(?:pull|not found|resolve)|failed to get sandbox image`),
		message: "the node cannot pull the image that it needs for every pod",
		advice:  administratorLater, late: administrator},
	{name: "sandbox-name-reserved", problem: passing,
		text:    compile(`failed to reserve sandbox name|is reserved for`),
		message: "the node takes too long to set up its sandbox",
		advice:  administratorLater, late: administrator},
	{name: "sandbox-disk-full", problem: passing,
		text:    compile(`\S: no space left`),
		message: "the node's disk is full",
		advice:  administratorLater, late: administrator},
}

// sandboxRules are the rules for a node that cannot set up a pod.
var sandboxRules = slices.Concat(runtimeRules, networkRules)

// administratorLater is the advice about a failure that is usually over after the next attempts. administrator is
// what remains of it then.
const (
	administratorLater = "wait; if the problem persists, " + administrator
	administrator      = "ask the cluster's administrator"
)

// retried explains a failure that no rule knows, and that is tried again.
func retried(message string) explanation {
	return explanation{message: message, advice: administratorLater, late: administrator, transient: true}
}

// sandboxText explains why the node cannot prepare a pod. It reports whether the failure is known
// to be the node's, so that other pods on it fail too.
func sandboxText(e *Event) (r explanation, ofNode bool) {
	r, known := match(sandboxRules, stripNoise(e.Note))
	if !known {
		r = retried(lowerFirst(usefulEnd(stripNoise(e.Note))))
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
	content := contentOf(s.pod, what)
	if content.Name != "" {
		r.message = strings.Replace(r.message, "its ConfigMap or Secret", content.Kind+" "+quote(line(content.Name, maxName)), 1)
	}
	used := usedByPods.FindStringSubmatch(e.Note)
	if used != nil && s.blockedByOldPods(used[2]) {
		r.advice, r.late, r.transient = endOldPodsFirst, "", false
	}
	cause := s.cause(reason, r).withEvent(e)
	if used != nil {
		for _, name := range strings.Split(used[2], ", ")[:min(maxBlamed, strings.Count(used[2], ", ")+1)] {
			cause.Blames = append(cause.Blames, Object{kindPod, name})
		}
	} else {
		cause.Blames = missingIn(e.Note)
		if strings.Contains(e.Note, "non-existent") && content.Name != "" { // its key
			cause.Blames = append(cause.Blames, content)
		}
	}
	return cause
}

// contentOf returns the Secret or ConfigMap in a volume, by the text that names the volume. It is empty if there is none, or several.
func contentOf(p *corev1.Pod, volume string) Object {
	for _, v := range p.Spec.Volumes {
		switch {
		case volume != "volume "+quote(v.Name):
		case v.Secret != nil:
			return Object{"Secret", v.Secret.SecretName}
		case v.ConfigMap != nil:
			return Object{"ConfigMap", v.ConfigMap.Name}
		}
	}
	return Object{}
}

// maxBlamed limits the objects that a cause blames.
const maxBlamed = 3

// missingObject matches what the kubelet writes about an object that a pod refers to.
var missingObject = compile(`\b(secret|configmap) "([^"]+)" not found`)

// missingKey matches the text about a key that an object does not have.
var missingKey = compile(`couldn't find key \S+ in (Secret|ConfigMap) [^/\s]+/(\S+)`)

// missingIn returns the object that does not exist, or lacks a key, as a text reports.
func missingIn(text string) []Object {
	m := missingObject.FindStringSubmatch(text)
	if m == nil {
		m = missingKey.FindStringSubmatch(text)
	}
	if m == nil {
		return nil
	}
	kind := "Secret"
	if strings.EqualFold(m[1], "ConfigMap") {
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
