package diagnosis

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// configReasons maps the reasons of containers that cannot be created to ours.
var configReasons = map[string]string{
	"CreateContainerConfigError": ReasonCreateContainerConfigError,
	"CreateContainerError":       ReasonCreateContainerError,
	"PreCreateHookError":         ReasonCreateContainerError,
	"PreStartHookError":          ReasonCreateContainerError,
	"PostStartHookError":         ReasonCreateContainerError,
	"ImageInspectError":          ReasonCreateContainerError,
	"RunContainerError":          ReasonRunContainerError,
}

// missingReference matches the kubelet's errors for a missing ConfigMap, Secret or key.
var missingReference = compile(`^Error: (?:configmap|secret) ".*" not found$|^Error: couldn't find key `)

// runtimeRules match the errors of container runtimes about the node, for containers and for the
// sandboxes of pods.
var runtimeRules = []rule{
	{name: "no-memory-cgroup", problem: passing,
		text:    compile(`mkdir /sys/fs/cgroup/\S+: (?:no space left on device|cannot allocate memory)`),
		message: "the node has no memory cgroup left",
		advice:  administratorLater, late: administrator},
	{name: "no-process-id", problem: passing,
		text:    compile(`fork/exec \S+: resource temporarily unavailable|failed to create new OS thread`),
		message: "the node has no process ID left",
		advice:  administratorLater, late: administrator},
	{name: "no-session-key", problem: passing,
		text:    compile(`create session key: disk quota exceeded`),
		message: "the node has no session key left for containers",
		advice:  "wait until other containers end, or ask the cluster's administrator to raise the sysctl kernel.keys.maxkeys",
		late:    "ask the cluster's administrator to raise the sysctl kernel.keys.maxkeys"},
	{name: "no-seccomp-memory", problem: lasting,
		text:    compile(`loading seccomp filter.*errno 524`),
		message: "the node has no memory left for seccomp filters",
		advice:  "select other nodes, or ask the cluster's administrator to raise the sysctl net.core.bpf_jit_limit"},
	{name: "node-filesystem-full", problem: passing,
		text:    compile(`^mkdir (/[^/\s]+)/\S+: no space left`),
		message: "the file system of ${1} on the node is full",
		advice:  "wait until the node frees space, or ask the cluster's administrator", late: administrator},
	{name: "runtime-binary-missing", problem: lasting,
		text:    compile(`^no such file or directory\): (?:fork/exec (\S+)|exec: "([^"]+)"): `),
		message: `the runtime "${1}${2}" is not installed on the node`,
		advice:  "correct runtimeClassName, select other nodes, or ask the cluster's administrator to install it"},
	{name: "cgroup-drivers-differ", problem: lasting,
		text:    compile(`expected cgroupsPath to be of format`),
		message: "the kubelet and the container runtime of the node use different cgroup drivers",
		advice:  "ask the cluster's administrator to correct the node"},
	{name: "init-process-ended", problem: lasting,
		text:    compile(`read init-p: connection reset by peer|can't get final child's PID from pipe: EOF`),
		message: "the process that prepares it ended early",
		advice:  "raise resources.limits.memory if it is low; otherwise, ask the cluster's administrator"},
	{name: "windows-version-differs", problem: lasting,
		text:    compile(`container operating system does not match the host operating system`),
		message: "its image is for another version of Windows than that of the node",
		advice:  "use an image for this version, or select other nodes"},
	{name: "systemd-unit-fails", problem: passing,
		text:    compile(`unable to start unit "[^"]+" \(properties .*?\): (.*)`),
		message: "systemd of the node does not start its unit: ${1}",
		advice:  administratorLater, late: administrator},
}

// configRules match the other errors about a container that cannot be started.
var configRules = []rule{
	{name: "env-file-not-valid", problem: lasting,
		text:    compile(`^couldn't parse env file`),
		message: "the file for its environment variables is not valid",
		advice:  "check the container that writes the file"},
	{name: "env-file-volume-not-found", problem: lasting,
		text:    compile(`cannot find the volume "([^"]+)" referenced by FileKeyRef`),
		message: `volume "${1}", which fileKeyRef names, does not exist in the pod`,
		advice:  "correct volumeName of fileKeyRef, or add the volume"},
	{name: "recursive-read-only-not-supported", problem: lasting,
		text:    compile(`requested recursive read-only mode|RROUnsupported`),
		message: "the node does not support recursiveReadOnly of a volume",
		advice:  "set recursiveReadOnly to IfPossible, or select other nodes"},
	{name: "sub-path-not-valid", problem: lasting,
		text:    compile("SubPath `([^`]*)` must not (.*)"),
		message: "the subPath ${1} in its volumeMounts must not ${2}",
		advice:  "correct subPath or subPathExpr, or the variable in it"},
	{name: "device-pre-start-fails", problem: passing,
		text:    compile(`device plugin PreStartContainer rpc failed with err: (.*)`),
		message: "the node cannot prepare the device that it requests: ${1}",
		advice:  administratorLater, late: administrator},
	{name: "hugetlb-controller-missing", problem: lasting,
		text:    compile(`hugetlb cgroup controller is missing`),
		message: "the node cannot limit huge pages",
		advice:  "do not request huge pages, or select other nodes"},
	{name: "image-volume-sub-path-is-file", problem: lasting,
		text:    compile(`only directory subpath is supported, subpath: ("[^"]+")`),
		message: "the subPath ${1} of an image volume is a file, and the node mounts only directories",
		advice:  "name a directory in subPath"},
	{name: "image-volume-sub-path-not-found", problem: lasting,
		text:    compile(`failed to ensure image subpath ("[^"]+") in .*: no such file or directory`),
		message: "the image of an image volume has no directory ${1}",
		advice:  "correct subPath in volumeMounts, or the image"},
	{name: "user-not-valid", problem: lasting,
		text:    compile(`invalid USER value ("[^"]+"): (.*)`),
		message: "USER ${1} of its image is not valid: ${2}",
		advice:  "set securityContext.runAsUser, or correct USER in the Dockerfile"},
	{name: "mount-inside-other-mount", problem: lasting,
		text:    compile(`cannot be mounted because it is inside (\S+?)(?::|$)`),
		message: "a volume is mounted inside ${1}",
		advice:  "mount it elsewhere"},
	{name: "working-directory-outside", problem: lasting,
		text:    compile(`working directory is outside of container mount namespace root`),
		message: "its working directory is outside of the container",
		advice:  "correct workingDir, or WORKDIR of the image"},
	{name: "rlimit-not-permitted", problem: lasting,
		text:    compile(`error setting rlimit`),
		message: "the node's container runtime sets a limit that the node does not allow",
		advice:  "ask the cluster's administrator"},
	{name: "container-id-exists", problem: passing,
		text:    compile(`container with given ID already exists`),
		message: "a container of an earlier attempt is still on the node",
		advice:  "wait for the next attempt; if the problem persists, delete the pod",
		late:    "delete the pod"},
	{name: "dynamic-library-missing", problem: lasting,
		text:    compile("exec container process \\(missing dynamic library\\?\\) `([^`]*)`"),
		message: "its command \"${1}\" cannot be run: the interpreter or the library that loads it is missing",
		advice:  "use an image that contains it, or one for the node's architecture"},
	{name: "sysctl-not-namespaced", problem: lasting,
		text:    compile("the sysctl `([^`]+)` is not namespaced"),
		message: "the node cannot set the sysctl ${1} for the pod alone",
		advice:  "remove it from securityContext.sysctls"},
	{name: "cgroup-controller-missing", problem: lasting,
		text:    compile("requested cgroup controller `([^`]+)` is not available"),
		message: "the node does not offer the cgroup controller ${1}",
		advice:  "select other nodes, or ask the cluster's administrator"},
	{name: "systemd-fails", problem: passing,
		text:    compile(`^sd-bus call: (.*)`),
		message: "systemd of the node does not start it: ${1}",
		advice:  administratorLater, late: administrator},
	{name: "creation-continues", problem: passing,
		text:    compile(`will be provided to the kubelet on next retry`),
		message: "its creation took long, and the next attempt will find it",
		advice:  "wait", late: administrator},
	{name: "sandbox-namespace-gone", problem: passing,
		text:    compile(`namespace path: lstat \S+: no such file or directory`),
		message: "its sandbox was stopped",
		advice:  "wait until the node creates another one",
		late:    "delete the pod; if its controller's next pod has the same problem, ask the cluster's administrator"},
	{name: "init-oom-killed", problem: lasting, means: MeansMemoryToStart,
		text:    compile(`container init was OOM-killed`),
		message: "it needs more memory than its limit",
		advice:  "raise resources.limits.memory"},
	{name: "mount-in-read-only-volume", problem: lasting,
		text:    compile(`(?:create mountpoint for (\S+) mount: |to rootfs at "([^"]+)": mkdir).*read-only file system`),
		message: "a volume is mounted at ${1}${2}, which is within a read-only volume",
		advice:  "change the mountPath of one of the two, or combine the volumes in a projected volume"},
	{name: "directory-path-is-file", problem: lasting,
		text:    compile(`^mkdir (\S+): not a directory`),
		message: "the directory ${1} cannot be created, because a part of the path is a file",
		advice:  "correct mountPath or workingDir, or the image"},
	{name: "directory-path-is-file-crun", problem: lasting,
		text:    compile("creating directory `([^`]*)` since `[^`]*` exists and it is not a directory"),
		message: "the directory ${1} cannot be created, because a part of the path is a file",
		advice:  "correct mountPath or workingDir, or the image"},
	{name: "directory-read-only", problem: lasting,
		text:    compile("^mkdir `([^`]*)`: Read-only file system"),
		message: "the directory ${1} cannot be created, because its file system is read-only",
		advice:  "change mountPath or workingDir, or create the directory in the image"},
	{name: "host-path-not-created", problem: lasting,
		text:    compile(`failed to mkdir ("[^"]+"): mkdir \S+: (.*)`),
		message: "the node cannot create the directory ${1}, which a volume mounts: ${2}",
		advice:  "correct the path of the hostPath volume, or use another type of volume"},
	{name: "nfs-handle-stale", problem: lasting,
		text:    compile(`(?:stat )?(\S+): stale NFS file handle`),
		message: "the NFS server no longer knows a directory that it mounts: ${1}",
		advice:  "delete the pod, so that the volume is mounted again; if the problem persists, check the export of the server"},
	{name: "fuse-endpoint-gone", problem: lasting,
		text:    compile(`(?:stat )?(\S+): transport endpoint is not connected`),
		message: "the program on the node that serves a volume has ended: ${1}",
		advice:  "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator"},
	{name: "image-link-escapes", problem: lasting,
		text:    compile(`openat (\S+): path escapes from parent`),
		message: "${1} in its image is a link out of its directory, which this version of containerd refuses",
		advice:  "make it a file in the image, or ask the cluster's administrator to update containerd"},
	{name: "nvidia-file-exists", problem: lasting,
		text:    compile(`nvidia-container-cli: mount error: file creation failed: \S*/([^/\s:]+): file exists`),
		message: `its image contains "${1}", which the node must mount there`,
		advice:  "remove this file of the GPU driver from the image"},
	{name: "process-already-stopped", problem: passing,
		text:    compile(`cannot start a stopped process`),
		message: "its process ended before it was started",
		advice:  "wait for the next attempt; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "user-namespace-id-unmapped", problem: lasting,
		text:    compile(`cannot set uid to unmapped user in user namespace|cannot set[ug]id to unmapped [ug]id \d+ in user namespace`),
		message: "its user or group ID does not exist in the user namespace of the pod",
		advice:  "use smaller IDs in securityContext, such as runAsUser, or set hostUsers to true"},
	{name: "memory-limit-below-usage", problem: lasting, means: MeansMemoryToStart,
		text:    compile(`cannot set the memory limit lower than its current usage|unable to set memory limit to \d+ \(current usage`),
		message: "it needs more memory than its limit",
		advice:  "raise resources.limits.memory"},
	{name: "windows-command-not-found", problem: lasting,
		text:    compile(`System::CreateProcess \S+: The system cannot find the file specified`),
		message: "its command does not exist in the image",
		advice:  "check the image, command and args"},
	{name: "idmap-not-supported", problem: lasting,
		text:    compile(`MOUNT_ATTR_IDMAP on \S*/([^:/\s]+)`),
		message: `its volume "${1}" does not support user namespaces`,
		advice:  "set hostUsers to true, or use another type of volume"},
	{name: "command-is-directory", problem: lasting,
		text:    compile(`exec: \\?"([^"\\]*)\\?": is a directory`),
		message: `its command "${1}" is a directory`,
		advice:  "check command and args"},
	{name: "cuda-requirement-unmet", problem: lasting,
		text:    compile(`unsatisfied condition: (.*?), please update your driver`),
		message: "its image needs ${1}, which the GPU driver of the node does not offer",
		advice:  "use an image for an older version, or select nodes with a newer driver"},
	{name: "env-file-key-not-found", problem: lasting,
		text:    compile(`environment variable key "([^"]+)" not found in file "`),
		message: `the file for its environment variables has no key "${1}"`,
		advice:  "check the container that writes the file, or correct fileKeyRef"},
	{name: "sub-path-variable-empty", problem: lasting,
		text:    compile(`^missing value for (\S+)$`),
		message: `a subPathExpr uses the environment variable "${1}", which has no value`,
		advice:  "set it in env of the container, or correct subPathExpr"},
	{name: "sandbox-stopped", problem: passing,
		text:    compile(`as the sandbox was stopped|failed to find sandbox id|sandbox container \S+ is not running`),
		message: "its sandbox was stopped",
		advice:  "wait until the node creates another one",
		late:    "delete the pod; if its controller's next pod has the same problem, ask the cluster's administrator"},
	{name: "create-runtime-down", problem: passing,
		text:    compile(`(?i)failed to inspect image .*connection error: desc =|ttrpc: closed`),
		message: "the node's container runtime does not respond",
		advice:  administratorLater, late: administrator},
	{name: "image-removed-from-node", problem: passing,
		text:    compile(`failed to get image from containerd \S+: .*not found`),
		message: "its image is no longer on the node",
		advice:  "wait until the node pulls it again", late: administrator},
	{name: "apparmor-not-enabled", problem: lasting,
		text:    compile(`(?i)apparmor is not (?:supported|enabled)`),
		message: "the node does not support AppArmor",
		advice:  "remove securityContext.appArmorProfile, or select other nodes"},
	{name: "capability-unknown", problem: lasting,
		text:    compile("unknown capability [\"`]([^\"`]+)[\"`]"),
		message: `its securityContext names the unknown capability "${1}"`,
		advice:  "correct securityContext.capabilities"},
	{name: "configmap-not-found", problem: lasting,
		text:    compile(`configmap "([^"]+)" not found`),
		message: `ConfigMap "${1}" does not exist`,
		advice:  "create it, or correct its name"},
	{name: "secret-not-found", problem: lasting,
		text:    compile(`secret "([^"]+)" not found`),
		message: `Secret "${1}" does not exist`,
		advice:  notCreated},
	{name: "configmap-key-not-found", problem: lasting,
		text:    compile(`couldn't find key (\S+) in ConfigMap [^/\s]+/(\S+)`),
		message: `ConfigMap "${2}" has no key "${1}"`,
		advice:  "add the key, or correct its name"},
	{name: "secret-key-not-found", problem: lasting,
		text:    compile(`couldn't find key (\S+) in Secret [^/\s]+/(\S+)`),
		message: `Secret "${2}" has no key "${1}"`,
		advice:  "add the key, or correct its name"},
	{name: "run-as-non-root-image-root", problem: lasting,
		text:    compile(`runAsNonRoot and image will run as root`),
		message: "its image runs as root, which runAsNonRoot forbids",
		advice:  "set securityContext.runAsUser to a user other than 0, or use another image"},
	{name: "run-as-non-root-image-user-name", problem: lasting,
		text:    compile(`runAsNonRoot and image has non-numeric user \(([^)]*)\)`),
		message: `its image runs as user "${1}", but runAsNonRoot requires a numeric user ID`,
		advice:  "set securityContext.runAsUser to the ID of that user"},
	{name: "run-as-non-root-user-zero", problem: lasting,
		text:    compile(`runAsUser breaks non-root policy`),
		message: "runAsUser is 0, which runAsNonRoot forbids",
		advice:  "set securityContext.runAsUser to a user other than 0"},
	{name: "volume-device-not-available", problem: lasting,
		text:    compile(`cannot find volume "([^"]+)" to pass into container`),
		message: `volume "${1}" of its volumeDevices is not available on the node`,
		advice:  "check the Events of the pod about this volume"},
	{name: "volume-mount-without-volume", problem: lasting,
		text:    compile(`cannot find volume "([^"]+)" to mount into container`),
		message: `volume "${1}" of its volumeMounts does not exist in the pod`,
		advice:  "add the volume, or correct the name"},
	{name: "hostname-not-valid", problem: lasting,
		text:    compile(`pod (Hostname|Subdomain|HostnameOverride) ("[^"]*") is not a valid`),
		message: "the pod's ${1} ${2} is not valid",
		advice:  "use lower-case letters, digits and hyphens"},
	{name: "command-not-found-crun", problem: lasting, means: MeansMissingCommand,
		text:    compile("executable file `([^`]*)` not found"),
		message: `its image does not contain the command "${1}"`,
		advice:  "check the image, command and args"},
	{name: "image-inspect-fails", problem: passing,
		text:    compile(`(?i)failed to inspect image`),
		message: "the node cannot read its image",
		advice:  administratorLater, late: administrator},
	{name: "kubelet-cache-not-synced", problem: passing,
		text:    compile(`failed to sync (\w+) cache|services have not yet been read`),
		message: "the node has not loaded the objects that it refers to",
		advice:  "wait", late: administrator},
	{name: "sub-path-fails", problem: lasting,
		text:    compile(`subPath`),
		message: "a subPath in its volumeMounts cannot be prepared",
		advice:  "check the volumeMounts and the contents of the volume"},
	{name: "working-directory-permission-denied", problem: lasting,
		text:    compile(`chdir (?:to cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed|` + "`([^`]*)`" + `): (?i:permission denied)`),
		message: "its user cannot enter its working directory ${1}${2}",
		advice:  "change workingDir or securityContext.runAsUser, or the permissions in the image"},
	{name: "working-directory-fails", problem: lasting,
		text:    compile(`chdir to (?:cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed|` + "`([^`]*)`)"),
		message: "its working directory ${1}${2} cannot be entered",
		advice:  "correct workingDir"},
	{name: "exec-format-error", problem: lasting,
		text:    compile(`(?i:exec format error)`),
		message: "its command is built for another CPU architecture, or is a script without a #! line",
		advice:  "use an image for the node's architecture, or select other nodes"},
	{name: "user-not-found", problem: lasting,
		text:    compile(`unable to find (?:user|group) ([^\s:]+): no matching entries`),
		message: `its image has no user or group "${1}"`,
		advice:  "set securityContext.runAsUser to a numeric ID, or correct the image"},
	{name: "mount-onto-file", problem: lasting,
		text:    compile(`[Aa]re you trying to mount a directory onto a file|\bmount(?:ing)? .*(?i:not a directory)`),
		message: "a volume is mounted on a path where the image has a file",
		advice:  "correct mountPath, or mount a single file with subPath"},
	{name: "mount-propagation-not-shared", problem: lasting,
		text:    compile(`is not a shared(?: or slave)? mount`),
		message: "its mountPropagation needs a shared mount, which the node does not have",
		advice:  "remove mountPropagation, or ask the cluster's administrator"},
	{name: "seccomp-profile-not-found", problem: lasting,
		text:    compile(`cannot load seccomp profile|seccomp profile .*not found|unable to load local profile`),
		message: "its seccomp profile is not on the node",
		advice:  "correct securityContext.seccompProfile, or use RuntimeDefault"},
	{name: "apparmor-parser-missing", problem: lasting,
		text:    compile(`get apparmor_parser version: exec: .*not found`),
		message: "the node lacks the program apparmor_parser",
		advice:  "ask the cluster's administrator to install it"},
	{name: "apparmor-profile-fails", problem: lasting,
		text:    compile(`(?i)apparmor`),
		message: "its AppArmor profile is not on the node",
		advice:  "correct securityContext.appArmorProfile, or use RuntimeDefault"},
	{name: "gpu-not-available", problem: passing,
		text:    compile(`(?i)nvidia-container|nvml error|libnvidia|CDI device injection failed|unresolvable CDI devices`),
		message: "the node cannot provide the device that it requests",
		advice:  "wait; if the problem persists, ask the cluster's administrator to check the device's driver on the node",
		late:    "ask the cluster's administrator to check the device's driver on the node"},
	{name: "post-start-hook-fails", problem: lasting,
		text:    compile(`(?i)lifecycle hook|PostStartHook`),
		message: "its postStart hook fails",
		advice:  "check lifecycle.postStart and the container's log"},
	{name: "command-not-found", problem: lasting, means: MeansMissingCommand,
		text:    compile(`exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file or directory)`),
		message: `its image does not contain the command "${1}"`,
		advice:  "check the image, command and args"},
	{name: "command-permission-denied", problem: lasting,
		text:    compile(`(?:\bexec (/\S+)|exec: \\?"([^"\\]*)\\?"): permission denied`),
		message: `its command "${1}${2}" cannot be executed: permission denied`,
		advice:  "check command, or make the file executable"},
	{name: "command-not-executable", problem: lasting,
		text:    compile("the path `([^`]*)` exists but it is not executable"),
		message: `its command "${1}" cannot be executed: permission denied`,
		advice:  "check command, or make the file executable"},
	{name: "open-executable-permission-denied", problem: lasting,
		text:    compile(`open executable: (?i:permission denied)`),
		message: "its command cannot be executed: permission denied",
		advice:  "check command, or make the file executable for securityContext.runAsUser"},
	{name: "open-executable-not-permitted", problem: lasting,
		text:    compile(`(?:open executable|exec container process ` + "`[^`]*`" + `): (?i:operation not permitted)`),
		message: "its command cannot be executed: operation not permitted",
		advice:  "check that it is a file that can be executed; if the file has capabilities, add them to securityContext.capabilities"},
	{name: "no-command", problem: lasting,
		text:    compile(`no command specified`),
		message: "neither the container nor its image specifies a command",
		advice:  "set command"},
	{name: "create-timeout", problem: passing,
		text:    compile(`context deadline exceeded|is reserved for|^create container timeout$`),
		message: "the node takes too long to create it",
		advice:  administratorLater, late: administrator},
	{name: "create-disk-full", problem: passing,
		text:    compile(`no space left`),
		message: "the node's disk is full",
		advice:  "wait until the node frees disk space, or ask the cluster's administrator", late: administrator},
}

// startRules are the rules for a container that cannot be started.
var startRules = slices.Concat(runtimeRules, configRules)

// mountedAt matches the error of a runtime about a mount whose path and source do not fit.
var mountedAt = compile("(?:mounting \"[^\"]*\" to rootfs at \"|^mount `[^`]*` to `)([^\"`]+)[\"`].*: (?i:(not a directory|no such file or directory))(?:: unknown)?$")

// mountError explains such an error about a volume of the pod. Runtimes also mount other files, such
// as those of devices.
func (c *container) mountError(text string) (explanation, bool) {
	at := mountedAt.FindStringSubmatchIndex(words(text))
	if at == nil {
		return explanation{}, false
	}
	path, why := "/"+strings.TrimPrefix(text[at[2]:at[3]], "/"), lowerFirst(text[at[4]:at[5]])
	i := slices.IndexFunc(c.spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
	if i < 0 {
		return explanation{}, false
	}
	mount := &c.spec.VolumeMounts[i]
	what := "volume " + quote(mount.Name)
	if mount.SubPath != "" {
		what = "subPath " + quote(line(mount.SubPath, maxName)) + " of " + what
	}
	return explanation{
		message: what + " cannot be mounted at " + line(path, maxName) + ": " + why,
		advice:  "check subPath and mountPath in its volumeMounts: both must be files, or both directories",
	}, true
}

// lifecycleHook matches the error of a hook that the kubelet runs.
var lifecycleHook = compile(`^\w+ lifecycle hook .*? failed - error: (.*?)(?:, message: .*)?$`)

// startError explains the error of a runtime, or of a hook.
func (c *container) startError(text string) explanation {
	if m := lifecycleHook.FindStringSubmatch(text); m != nil {
		if r, ok := match(startRules, m[1]); ok {
			return explanation{message: "its postStart hook fails: " + r.message, advice: "correct lifecycle.postStart, or the image"}
		}
	}
	if r, ok := c.mountError(text); ok {
		return r
	}
	r := matchOr(startRules, text, c.eventsAdvice())
	limit, limited := c.spec.Resources.Limits[corev1.ResourceMemory]
	if r.means == MeansMissingCommand && strings.Contains(r.first, " ") {
		r.advice = "write the command and each of its arguments as an item of its own, such as [npm, start]"
	} else if limited && r.means == MeansMemoryToStart {
		r.message += " of " + limit.String() + " to start"
		if limit.CmpInt64(1<<20) < 0 {
			r.advice += ", and check its unit: Mi is a mebibyte, and m is a thousandth of a byte"
		}
	}
	return r
}

// createCause is the cause of a container that cannot be created or started.
func (c *container) createCause(reason, message string) Cause {
	last := latest(c.ownEvents(), "Failed", "FailedPostStartHook")
	if message == "" && last != nil {
		message = last.Note
	}
	r := c.startError(stripNoise(message))
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = c.label() + " cannot be started" + r.message
	cause := c.cause(reason, r).withEvent(last)
	cause.Blames = missingIn(message)
	return cause
}
