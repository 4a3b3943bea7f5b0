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
	{compile(`mkdir /sys/fs/cgroup/\S+: (?:no space left on device|cannot allocate memory)`),
		"the node has no memory cgroup left", administratorLater, true},
	{compile(`fork/exec \S+: resource temporarily unavailable|failed to create new OS thread`),
		"the node has no process ID left", administratorLater, true},
	{compile(`create session key: disk quota exceeded`),
		"the node has no session key left for containers", "wait until other containers end, or ask the cluster's administrator to raise the sysctl kernel.keys.maxkeys", true},
	{compile(`loading seccomp filter.*errno 524`),
		"the node has no memory left for seccomp filters", "select other nodes, or ask the cluster's administrator to raise the sysctl net.core.bpf_jit_limit", false},
	{compile(`^mkdir (/[^/\s]+)/\S+: no space left`),
		"the file system of ${1} on the node is full", "wait until the node frees space, or ask the cluster's administrator", true},
	{compile(`^no such file or directory\): (?:fork/exec (\S+)|exec: "([^"]+)"): `),
		`the runtime "${1}${2}" is not installed on the node`, "correct runtimeClassName, select other nodes, or ask the cluster's administrator to install it", false},
	{compile(`expected cgroupsPath to be of format`),
		"the kubelet and the container runtime of the node use different cgroup drivers", "ask the cluster's administrator to correct the node", false},
	{compile(`read init-p: connection reset by peer|can't get final child's PID from pipe: EOF`),
		"the process that prepares it ended early", "raise resources.limits.memory if it is low; otherwise, ask the cluster's administrator", false},
	{compile(`container operating system does not match the host operating system`),
		"its image is for another version of Windows than that of the node", "use an image for this version, or select other nodes", false},
	{compile(`unable to start unit "[^"]+" \(properties .*?\): (.*)`),
		"systemd of the node does not start its unit: ${1}", administratorLater, true},
}

var configRules = slices.Concat(runtimeRules, []rule{
	{compile(`^couldn't parse env file`),
		"the file for its environment variables is not valid", "check the container that writes the file", false},
	{compile(`cannot find the volume "([^"]+)" referenced by FileKeyRef`),
		`volume "${1}", which fileKeyRef names, does not exist in the pod`, "correct volumeName of fileKeyRef, or add the volume", false},
	{compile(`requested recursive read-only mode|RROUnsupported`),
		"the node does not support recursiveReadOnly of a volume", "set recursiveReadOnly to IfPossible, or select other nodes", false},
	{compile("SubPath `([^`]*)` must not (.*)"),
		"the subPath ${1} in its volumeMounts must not ${2}", "correct subPath or subPathExpr, or the variable in it", false},
	{compile(`device plugin PreStartContainer rpc failed with err: (.*)`),
		"the node cannot prepare the device that it requests: ${1}", administratorLater, true},
	{compile(`hugetlb cgroup controller is missing`),
		"the node cannot limit huge pages", "do not request huge pages, or select other nodes", false},
	{compile(`only directory subpath is supported, subpath: ("[^"]+")`),
		"the subPath ${1} of an image volume is a file, and the node mounts only directories", "name a directory in subPath", false},
	{compile(`failed to ensure image subpath ("[^"]+") in .*: no such file or directory`),
		"the image of an image volume has no directory ${1}", "correct subPath in volumeMounts, or the image", false},
	{compile(`invalid USER value ("[^"]+"): (.*)`),
		"USER ${1} of its image is not valid: ${2}", "set securityContext.runAsUser, or correct USER in the Dockerfile", false},
	{compile(`cannot be mounted because it is inside (\S+?)(?::|$)`),
		"a volume is mounted inside ${1}", "mount it elsewhere", false},
	{compile(`working directory is outside of container mount namespace root`),
		"its working directory is outside of the container", "correct workingDir, or WORKDIR of the image", false},
	{compile(`error setting rlimit`),
		"the node's container runtime sets a limit that the node does not allow", "ask the cluster's administrator", false},
	{compile(`container with given ID already exists`),
		"a container of an earlier attempt is still on the node", "wait for the next attempt; if the problem persists, delete the pod", true},
	{compile("exec container process \\(missing dynamic library\\?\\) `([^`]*)`"),
		"its command \"${1}\" cannot be run: the interpreter or the library that loads it is missing", "use an image that contains it, or one for the node's architecture", false},
	{compile("the sysctl `([^`]+)` is not namespaced"),
		"the node cannot set the sysctl ${1} for the pod alone", "remove it from securityContext.sysctls", false},
	{compile("requested cgroup controller `([^`]+)` is not available"),
		"the node does not offer the cgroup controller ${1}", "select other nodes, or ask the cluster's administrator", false},
	{compile(`^sd-bus call: (.*)`),
		"systemd of the node does not start it: ${1}", administratorLater, true},
	{compile(`will be provided to the kubelet on next retry`),
		"its creation took long, and the next attempt will find it", "wait", true},
	{compile(`namespace path: lstat \S+: no such file or directory`),
		"its sandbox was stopped", "wait until the node creates another one", true},
	{compile(`container init was OOM-killed`),
		startMemory, "raise resources.limits.memory", false},
	{compile(`(?:create mountpoint for (\S+) mount: |to rootfs at "([^"]+)": mkdir).*read-only file system`),
		"a volume is mounted at ${1}${2}, which is within a read-only volume", "change the mountPath of one of the two, or combine the volumes in a projected volume", false},
	{compile(`^mkdir (\S+): not a directory`),
		"the directory ${1} cannot be created, because a part of the path is a file", "correct mountPath or workingDir, or the image", false},
	{compile("creating directory `([^`]*)` since `[^`]*` exists and it is not a directory"),
		"the directory ${1} cannot be created, because a part of the path is a file", "correct mountPath or workingDir, or the image", false},
	{compile("^mkdir `([^`]*)`: Read-only file system"),
		"the directory ${1} cannot be created, because its file system is read-only", "change mountPath or workingDir, or create the directory in the image", false},
	{compile(`failed to mkdir ("[^"]+"): mkdir \S+: (.*)`),
		"the node cannot create the directory ${1}, which a volume mounts: ${2}", "correct the path of the hostPath volume, or use another type of volume", false},
	{compile(`(?:stat )?(\S+): stale NFS file handle`),
		"the NFS server no longer knows a directory that it mounts: ${1}", "delete the pod, so that the volume is mounted again; if the problem persists, check the export of the server", false},
	{compile(`(?:stat )?(\S+): transport endpoint is not connected`),
		"the program on the node that serves a volume has ended: ${1}", "delete the pod, so that the volume is mounted again; if the problem persists, ask the cluster's administrator", false},
	{compile(`openat (\S+): path escapes from parent`),
		"${1} in its image is a link out of its directory, which this version of containerd refuses", "make it a file in the image, or ask the cluster's administrator to update containerd", false},
	{compile(`nvidia-container-cli: mount error: file creation failed: \S*/([^/\s:]+): file exists`),
		`its image contains "${1}", which the node must mount there`, "remove this file of the GPU driver from the image", false},
	{compile(`cannot start a stopped process`),
		"its process ended before it was started", "wait for the next attempt; if the problem persists, ask the cluster's administrator", true},
	{compile(`cannot set uid to unmapped user in user namespace|cannot set[ug]id to unmapped [ug]id \d+ in user namespace`),
		"its user or group ID does not exist in the user namespace of the pod", "use smaller IDs in securityContext, such as runAsUser, or set hostUsers to true", false},
	{compile(`cannot set the memory limit lower than its current usage|unable to set memory limit to \d+ \(current usage`),
		startMemory, "raise resources.limits.memory", false},
	{compile(`System::CreateProcess \S+: The system cannot find the file specified`),
		"its command does not exist in the image", "check the image, command and args", false},
	{compile(`MOUNT_ATTR_IDMAP on \S*/([^:/\s]+)`),
		`its volume "${1}" does not support user namespaces`, "set hostUsers to true, or use another type of volume", false},
	{compile(`exec: \\?"([^"\\]*)\\?": is a directory`),
		`its command "${1}" is a directory`, "check command and args", false},
	{compile(`unsatisfied condition: (.*?), please update your driver`),
		"its image needs ${1}, which the GPU driver of the node does not offer", "use an image for an older version, or select nodes with a newer driver", false},
	{compile(`environment variable key "([^"]+)" not found in file "`),
		`the file for its environment variables has no key "${1}"`, "check the container that writes the file, or correct fileKeyRef", false},
	{compile(`^missing value for (\S+)$`),
		`a subPathExpr uses the environment variable "${1}", which has no value`, "set it in env of the container, or correct subPathExpr", false},
	{compile(`as the sandbox was stopped|failed to find sandbox id|sandbox container \S+ is not running`),
		"its sandbox was stopped", "wait until the node creates another one", true},
	{compile(`(?i)failed to inspect image .*connection error: desc =|ttrpc: closed`),
		"the node's container runtime does not respond", administratorLater, true},
	{compile(`failed to get image from containerd \S+: .*not found`),
		"its image is no longer on the node", "wait until the node pulls it again", true},
	{compile(`(?i)apparmor is not (?:supported|enabled)`),
		"the node does not support AppArmor", "remove securityContext.appArmorProfile, or select other nodes", false},
	{compile("unknown capability [\"`]([^\"`]+)[\"`]"),
		`its securityContext names the unknown capability "${1}"`, "correct securityContext.capabilities", false},
	{compile(`configmap "([^"]+)" not found`),
		`ConfigMap "${1}" does not exist`, "create it, or correct its name", false},
	{compile(`secret "([^"]+)" not found`),
		`Secret "${1}" does not exist`, "create it, or correct its name", false},
	{compile(`couldn't find key (\S+) in ConfigMap [^/\s]+/(\S+)`),
		`ConfigMap "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{compile(`couldn't find key (\S+) in Secret [^/\s]+/(\S+)`),
		`Secret "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{compile(`runAsNonRoot and image will run as root`),
		"its image runs as root, which runAsNonRoot forbids", "set securityContext.runAsUser to a user other than 0, or use another image", false},
	{compile(`runAsNonRoot and image has non-numeric user \(([^)]*)\)`),
		`its image runs as user "${1}", but runAsNonRoot requires a numeric user ID`,
		"set securityContext.runAsUser to the ID of that user", false},
	{compile(`runAsUser breaks non-root policy`),
		"runAsUser is 0, which runAsNonRoot forbids", "set securityContext.runAsUser to a user other than 0", false},
	{compile(`cannot find volume "([^"]+)" to pass into container`),
		`volume "${1}" of its volumeDevices is not available on the node`, "check the Events of the pod about this volume", false},
	{compile(`cannot find volume "([^"]+)" to mount into container`),
		`volume "${1}" of its volumeMounts does not exist in the pod`, "add the volume, or correct the name", false},
	{compile(`pod (Hostname|Subdomain|HostnameOverride) ("[^"]*") is not a valid`),
		"the pod's ${1} ${2} is not valid", "use lower-case letters, digits and hyphens", false},
	{compile("executable file `([^`]*)` not found"),
		missingCommand + `"${1}"`, "check the image, command and args", false},
	{compile(`(?i)failed to inspect image`),
		"the node cannot read its image", administratorLater, true},
	{compile(`failed to sync (\w+) cache|services have not yet been read`),
		"the node has not loaded the objects that it refers to", "wait", true},
	{compile(`subPath`), "a subPath in its volumeMounts cannot be prepared", "check the volumeMounts and the contents of the volume", false},
	{compile(`chdir (?:to cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed|` + "`([^`]*)`" + `): (?i:permission denied)`),
		"its user cannot enter its working directory ${1}${2}", "change workingDir or securityContext.runAsUser, or the permissions in the image", false},
	{compile(`chdir to (?:cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed|` + "`([^`]*)`)"),
		"its working directory ${1}${2} cannot be entered", "correct workingDir", false},
	{compile(`(?i:exec format error)`),
		"its command is built for another CPU architecture, or is a script without a #! line", "use an image for the node's architecture, or select other nodes", false},
	{compile(`unable to find (?:user|group) ([^\s:]+): no matching entries`),
		`its image has no user or group "${1}"`, "set securityContext.runAsUser to a numeric ID, or correct the image", false},
	{compile(`[Aa]re you trying to mount a directory onto a file|\bmount(?:ing)? .*(?i:not a directory)`),
		"a volume is mounted on a path where the image has a file", "correct mountPath, or mount a single file with subPath", false},
	{compile(`is not a shared(?: or slave)? mount`),
		"its mountPropagation needs a shared mount, which the node does not have", "remove mountPropagation, or ask the cluster's administrator", false},
	{compile(`cannot load seccomp profile|seccomp profile .*not found|unable to load local profile`),
		"its seccomp profile is not on the node", "correct securityContext.seccompProfile, or use RuntimeDefault", false},
	{compile(`get apparmor_parser version: exec: .*not found`),
		"the node lacks the program apparmor_parser", "ask the cluster's administrator to install it", false},
	{compile(`(?i)apparmor`),
		"its AppArmor profile is not on the node", "correct securityContext.appArmorProfile, or use RuntimeDefault", false},
	{compile(`(?i)nvidia-container|nvml error|libnvidia|CDI device injection failed|unresolvable CDI devices`),
		"the node cannot provide the device that it requests", "wait; if the problem persists, ask the cluster's administrator to check the device's driver on the node", true},
	{compile(`(?i)lifecycle hook|PostStartHook`),
		"its postStart hook fails", "check lifecycle.postStart and the container's log", false},
	{compile(`exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file or directory)`),
		missingCommand + `"${1}"`, "check the image, command and args", false},
	{compile(`(?:\bexec (/\S+)|exec: \\?"([^"\\]*)\\?"): permission denied`),
		`its command "${1}${2}" cannot be executed: permission denied`, "check command, or make the file executable", false},
	{compile("the path `([^`]*)` exists but it is not executable"),
		`its command "${1}" cannot be executed: permission denied`, "check command, or make the file executable", false},
	{compile(`open executable: (?i:permission denied)`),
		"its command cannot be executed: permission denied", "check command, or make the file executable for securityContext.runAsUser", false},
	{compile(`(?:open executable|exec container process ` + "`[^`]*`" + `): (?i:operation not permitted)`),
		"its command cannot be executed: operation not permitted", "check that it is a file that can be executed; if the file has capabilities, add them to securityContext.capabilities", false},
	{compile(`no command specified`), "neither the container nor its image specifies a command", "set command", false},
	{compile(`context deadline exceeded|is reserved for|^create container timeout$`),
		"the node takes too long to create it", administratorLater, true},
	{compile(`no space left`), "the node's disk is full", "wait until the node frees disk space, or ask the cluster's administrator", true},
})

// missingCommand begins the message about a command that does not exist.
const missingCommand = "its image does not contain the command "

// startMemory is the message about a memory limit that the runtime itself exceeds before it runs the
// command.
const startMemory = "it needs more memory than its limit"

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
		if r, ok := match(configRules, m[1]); ok {
			return explanation{message: "its postStart hook fails: " + r.message, advice: "correct lifecycle.postStart, or the image"}
		}
	}
	if r, ok := c.mountError(text); ok {
		return r
	}
	r := matchOr(configRules, text, c.eventsAdvice())
	limit, limited := c.spec.Resources.Limits[corev1.ResourceMemory]
	if command, ok := strings.CutPrefix(r.message, missingCommand); ok && strings.Contains(command, " ") {
		r.advice = "write the command and each of its arguments as an item of its own, such as [npm, start]"
	} else if limited && r.message == startMemory {
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
