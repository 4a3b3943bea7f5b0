package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// imageReasons maps the kubelet's reasons to wait for an image to ours.
var imageReasons = map[string]string{
	"ErrImagePull":              ReasonErrImagePull,
	"RegistryUnavailable":       ReasonErrImagePull,
	"SignatureValidationFailed": ReasonErrImagePull,
	"ImagePullBackOff":          ReasonImagePullBackOff,
	"ErrImageNeverPull":         ReasonErrImageNeverPull,
	"InvalidImageName":          ReasonInvalidImageName,
}

// deniedPull is the message about a pull without sufficient credentials.
const deniedPull = "the registry denies access, or has no such repository"

// These messages are about the node alone, so that the cause names it.
const (
	damagedStore = "the node's image store is damaged"
	fullDisk     = "the node's disk is full"
)

// imageRules match the errors of container runtimes. The order matters: a registry that
// requires a login also answers "denied" for an image that does not exist.
var imageRules = []rule{
	{regexp.MustCompile(`(?:^|\s)(/[^\s:]+): (?:connect: )?permission denied`),
		"a file on the node cannot be accessed: ${1}: permission denied", administratorLater, true},
	{regexp.MustCompile(`unexpected media type (\S+) for`),
		"the registry, or a mirror or proxy before it, answers with ${1}, which is no image", "check the mirror or proxy, not the tag; if you do not know it, ask the cluster's administrator", false},
	{regexp.MustCompile(`content digest \S+: not found`),
		damagedStore, "ask the cluster's administrator to remove the image from the node, so that it is pulled again", false},
	{regexp.MustCompile(`short-name .* did not resolve|returns ambiguous list`),
		"its name has no registry, and the node cannot choose one", "write the whole name, for example docker.io/library/NAME:TAG", false},
	{regexp.MustCompile(`pull QPS exceeded`),
		"the node pulls too many images at once", "wait", true},
	{regexp.MustCompile(`(?i)toomanyrequests|too many requests|rate limit`),
		"the registry's rate limit is reached", "wait, or add the credentials of an account to imagePullSecrets", true},
	{regexp.MustCompile(`(?i)no such host|server misbehaving`),
		"the registry's host name cannot be resolved", "check the host in the image name", true},
	{regexp.MustCompile(`(?i)proxyconnect`),
		"the node's proxy cannot be reached", administratorLater, true},
	{regexp.MustCompile(`(?i)x509|certificate|tls: |server gave HTTP response`),
		"the node does not trust the registry's certificate, or the registry does not use TLS", "ask the cluster's administrator to make the nodes trust the registry", false},
	{regexp.MustCompile(`(?i)i/o timeout|connection refused|connection reset|timeout|no route to host|network is unreachable|` +
		`registry is unavailable|deadline exceeded|` + httpStatus + `5\d\d\b|: EOF`),
		"the registry cannot be reached", "check the host in the image name; if it is correct, wait until the registry is available", true},
	{regexp.MustCompile(`(?i)unexpected commit digest|failed size validation|unexpected EOF|invalid checksum|failed to verify|gzip: invalid`),
		"the download is damaged", "wait for the next attempt; if the problem persists, push the image again", true},
	{regexp.MustCompile(`(?i)media type|mediatype|schema ?v?1\b`),
		"the container runtime of the node does not support the image's format", "push the image again with a current tool", false},
	{regexp.MustCompile(`(?i)signature validation failed|signature required|policy rejected`),
		"its signature is not valid", "use a signed image, or ask the cluster's administrator which images are allowed", false},
	{regexp.MustCompile(`(?i)denied|unauthorized|authorization failed|forbidden|authentication required|no basic auth|insufficient_scope|` + httpStatus + `40[13]\b`),
		deniedPull, "check the image name, and that imagePullSecrets names a Secret with credentials for the image", false},
	{regexp.MustCompile(`(?i)no match for platform|no matching manifest|no image found in (?:image index|manifest list)`),
		"the image is not built for the node's CPU architecture", "use an image for this architecture, or select other nodes", false},
	{regexp.MustCompile(`(?i)not ?found|manifest unknown|name unknown|does not exist`),
		"the registry has no such image or tag", "check the image name and tag", false},
	{regexp.MustCompile(`(?i)no space left`),
		fullDisk, "wait until the node frees disk space, or ask the cluster's administrator", true},
}

// backOffPrefix precedes the error of the last pull, if the kubelet reports it.
var backOffPrefix = regexp.MustCompile(`^Back-off pulling image "[^"]*"(?:: )?`)

// pullPrefix precedes the error in other texts.
var pullPrefix = regexp.MustCompile(`^(?:ErrImagePull: |Failed to pull image "[^"]*": |Error: (?:ErrImagePull|ImagePullBackOff)$)`)

// imageCause is the cause of a container whose image cannot be pulled.
func (c *container) imageCause(reason, message string) Cause {
	what := "the image of " + c.label()
	if c.spec.Image != "" {
		what = "image " + quote(line(c.spec.Image, maxName)) + " of " + c.label()
	}
	switch reason {
	case ReasonInvalidImageName:
		return c.cause(reason, explanation{message: what + " has an invalid name", advice: "write it as REGISTRY/NAME:TAG in lower case"})
	case ReasonErrImageNeverPull:
		return c.cause(reason, explanation{message: what + " is not on the node, and imagePullPolicy is Never", advice: "set imagePullPolicy to IfNotPresent"})
	}
	last := latestPull(c.events, c.name)
	detail := pullError(message)
	if detail == "" && last != nil {
		detail = pullError(last.Note)
	}
	r := matchOr(imageRules, detail, c.eventsAdvice())
	if unread := c.unreadPullSecrets(last); r.message == deniedPull && unread.message != "" {
		r.message, r.advice = unread.message+", and the registry denies access", unread.advice
	}
	what += " cannot be pulled"
	node := ""
	if r.message == damagedStore || r.message == fullDisk {
		node = c.pod.Spec.NodeName
	}
	if node != "" {
		what += " on node " + quote(line(node, maxName))
	}
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = what + r.message
	cause := c.cause(reason, r).withEvent(last)
	cause.Node = node
	return cause
}

var unreadSecrets = regexp.MustCompile(`^Unable to retrieve some image pull secrets \(([^)]+)\)`)

// unreadPullSecrets names the Secrets of imagePullSecrets that the kubelet could not read. It
// reports them with each pull. The message is empty if it read all.
func (s *podView) unreadPullSecrets(pull *Event) explanation {
	e := latest(s.events, failedPullSecret)
	if e == nil || pull.isAfter(e.LastSeen.Add(maxEventDelay)) {
		return explanation{}
	}
	return pullSecretText(e.Note)
}

// failedPullSecret is the reason of the Event about Secrets that imagePullSecrets names and the
// kubelet cannot read.
const failedPullSecret = "FailedToRetrieveImagePullSecret"

// pullSecretText explains the note of such an Event. The kubelet emits it for each failed read, not
// only for a Secret that does not exist.
func pullSecretText(note string) explanation {
	m := unreadSecrets.FindStringSubmatch(note)
	if m == nil {
		return explanation{}
	}
	names := quote(strings.ReplaceAll(line(m[1], maxQuoted), ", ", `", "`))
	if strings.Contains(names, ", ") {
		return explanation{message: "the node cannot read the Secrets " + names + " in imagePullSecrets", advice: "check that they exist in this namespace"}
	}
	return explanation{message: "the node cannot read the Secret " + names + " in imagePullSecrets", advice: "check that it exists in this namespace"}
}

// pullError returns the error in a text about a pull, or "".
func pullError(text string) string {
	text = backOffPrefix.ReplaceAllString(line(text, maxRead), "")
	return stripNoise(pullPrefix.ReplaceAllString(text, ""))
}

// latestPull returns the last Event of a failed pull for the container, or nil.
func latestPull(events []Event, container string) *Event {
	var last *Event
	for i := range events {
		if e := &events[i]; e.Container() == container && isPullFailure(e) {
			last = e
		}
	}
	return last
}

func isPullFailure(e *Event) bool {
	return e.Reason == "Failed" && strings.HasPrefix(e.Note, "Failed to pull image ")
}

// imageReasonOf returns the reason that an Event about an image stands for.
func imageReasonOf(e *Event) (string, bool) {
	switch {
	case isPullFailure(e), e.Reason == "Failed" && e.Note == "Error: ErrImagePull":
		return ReasonErrImagePull, true
	case e.Reason == "BackOff" && strings.HasPrefix(e.Note, "Back-off pulling image"),
		e.Reason == "Failed" && e.Note == "Error: ImagePullBackOff":
		return ReasonImagePullBackOff, true
	case e.Reason == "ErrImageNeverPull":
		return ReasonErrImageNeverPull, true
	case e.Reason == "InspectFailed" && strings.HasPrefix(e.Note, "Failed to apply default image tag"):
		return ReasonInvalidImageName, true
	}
	return "", false
}

func quote(s string) string { return `"` + s + `"` }

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
var missingReference = regexp.MustCompile(`^Error: (?:configmap|secret) ".*" not found$|^Error: couldn't find key `)

var configRules = []rule{
	{regexp.MustCompile(`container init was OOM-killed`),
		startMemory, "raise resources.limits.memory", false},
	{regexp.MustCompile(`create mountpoint for (\S+) mount: .*read-only file system`),
		"a volume is mounted at ${1}, which is within a read-only volume", "change mountPath, or combine the volumes in a projected volume", false},
	{regexp.MustCompile(`mkdir /sys/fs/cgroup/\S+: (?:no space left on device|cannot allocate memory)`),
		"the node has no memory cgroup left", administratorLater, true},
	{regexp.MustCompile(`fork/exec \S+: resource temporarily unavailable|failed to create new OS thread`),
		"the node has no process ID left", administratorLater, true},
	{regexp.MustCompile(`MOUNT_ATTR_IDMAP on \S*/([^:/\s]+)`),
		`its volume "${1}" does not support user namespaces`, "set hostUsers to true, or use another type of volume", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": is a directory`),
		`its command "${1}" is a directory`, "check command and args", false},
	{regexp.MustCompile(`configmap "([^"]+)" not found`),
		`ConfigMap "${1}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(`secret "([^"]+)" not found`),
		`Secret "${1}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(`couldn't find key (\S+) in ConfigMap [^/\s]+/(\S+)`),
		`ConfigMap "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{regexp.MustCompile(`couldn't find key (\S+) in Secret [^/\s]+/(\S+)`),
		`Secret "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{regexp.MustCompile(`runAsNonRoot and image will run as root`),
		"its image runs as root, which runAsNonRoot forbids", "set securityContext.runAsUser to a user other than 0, or use another image", false},
	{regexp.MustCompile(`runAsNonRoot and image has non-numeric user \(([^)]*)\)`),
		`its image runs as user "${1}", but runAsNonRoot requires a numeric user ID`,
		"set securityContext.runAsUser to the ID of that user", false},
	{regexp.MustCompile(`runAsUser breaks non-root policy`),
		"runAsUser is 0, which runAsNonRoot forbids", "set securityContext.runAsUser to a user other than 0", false},
	{regexp.MustCompile(`cannot find volume "([^"]+)" to (?:mount|pass) into container`),
		`volume "${1}" of its volumeMounts does not exist in the pod`, "add the volume, or correct the name", false},
	{regexp.MustCompile(`pod (Hostname|Subdomain|HostnameOverride) ("[^"]*") is not a valid`),
		"the pod's ${1} ${2} is not valid", "use lower-case letters, digits and hyphens", false},
	{regexp.MustCompile("executable file `([^`]*)` not found"),
		`its image does not contain the command "${1}"`, "check the image, command and args", false},
	{regexp.MustCompile(`(?i)failed to inspect image`),
		"the node cannot read its image", administratorLater, true},
	{regexp.MustCompile(`failed to sync (\w+) cache|services have not yet been read`),
		"the node has not loaded the objects that it refers to", "wait", true},
	{regexp.MustCompile(`subPath`), "a subPath in its volumeMounts cannot be prepared", "check the volumeMounts and the contents of the volume", false},
	{regexp.MustCompile(`chdir to cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed: permission denied`),
		"its user cannot enter its working directory ${1}", "change workingDir or securityContext.runAsUser, or the permissions in the image", false},
	{regexp.MustCompile(`chdir to cwd \(\\?"([^"\\]*)\\?"\) set in config\.json failed`),
		"its working directory ${1} cannot be entered", "correct workingDir", false},
	{regexp.MustCompile(`exec format error`),
		"its command is built for another CPU architecture, or is a script without a #! line", "use an image for the node's architecture, or select other nodes", false},
	{regexp.MustCompile(`unable to find (?:user|group) ([^\s:]+): no matching entries`),
		`its image has no user or group "${1}"`, "set securityContext.runAsUser to a numeric ID, or correct the image", false},
	{regexp.MustCompile(`[Aa]re you trying to mount a directory onto a file|not a directory: unknown`),
		"a volume is mounted on a path where the image has a file", "correct mountPath, or mount a single file with subPath", false},
	{regexp.MustCompile(`is not a shared(?: or slave)? mount`),
		"its mountPropagation needs a shared mount, which the node does not have", "remove mountPropagation, or ask the cluster's administrator", false},
	{regexp.MustCompile(`cannot load seccomp profile|seccomp profile .*not found`),
		"its seccomp profile is not on the node", "correct securityContext.seccompProfile, or use RuntimeDefault", false},
	{regexp.MustCompile(`(?i)apparmor`),
		"its AppArmor profile is not on the node", "correct securityContext.appArmorProfile, or use RuntimeDefault", false},
	{regexp.MustCompile(`(?i)nvidia-container|libnvidia|CDI device injection failed|unresolvable CDI devices`),
		"the node cannot provide the device that it requests", "wait; if the problem persists, ask the cluster's administrator to check the device's driver on the node", true},
	{regexp.MustCompile(`(?i)lifecycle hook|PostStartHook`),
		"its postStart hook fails", "check lifecycle.postStart and the container's log", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file or directory)`),
		`its image does not contain the command "${1}"`, "check the image, command and args", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": permission denied`),
		`its command "${1}" cannot be executed: permission denied`, "check command, or make the file executable", false},
	{regexp.MustCompile(`no command specified`), "neither the container nor its image specifies a command", "set command", false},
	{regexp.MustCompile(`context deadline exceeded|is reserved for`),
		"the node takes too long to create it", administratorLater, true},
	{regexp.MustCompile(`no space left`), "the node's disk is full", "wait until the node frees disk space, or ask the cluster's administrator", true},
}

// startMemory is the message about a memory limit that the runtime itself exceeds before it runs the
// command.
const startMemory = "it needs more memory than its limit"

// mountedAt matches the error of a runtime about a mount whose path and source do not fit.
var mountedAt = regexp.MustCompile(`mounting "[^"]*" to rootfs at "([^"]+)".*: (not a directory|no such file or directory)(?:: unknown)?$`)

// mountError explains such an error about a volume of the pod. Runtimes also mount other files, such
// as those of devices.
func (c *container) mountError(text string) (explanation, bool) {
	at := mountedAt.FindStringSubmatchIndex(words(text))
	if at == nil {
		return explanation{}, false
	}
	path, why := text[at[2]:at[3]], text[at[4]:at[5]]
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

// createCause is the cause of a container that cannot be created or started.
func (c *container) createCause(reason, message string) Cause {
	last := latest(c.ownEvents(), "Failed", "FailedPostStartHook")
	if message == "" && last != nil {
		message = last.Note
	}
	text := stripNoise(message)
	r, ok := c.mountError(text)
	if !ok {
		r = matchOr(configRules, text, c.eventsAdvice())
	}
	if limit, limited := c.spec.Resources.Limits[corev1.ResourceMemory]; limited && r.message == startMemory {
		r.message += " of " + limit.String() + " to start"
		if limit.CmpInt64(1<<20) < 0 {
			r.advice += ", and check its unit: Mi is a mebibyte, and m is a thousandth of a byte"
		}
	}
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = c.label() + " cannot be started" + r.message
	return c.cause(reason, r).withEvent(last)
}

// ownEvents returns the Events that regard the container.
func (c *container) ownEvents() []Event {
	var own []Event
	for _, e := range c.events {
		if e.Container() == c.name {
			own = append(own, e)
		}
	}
	return own
}

// failed reports whether a container ended with an error.
func failed(t *corev1.ContainerStateTerminated) bool {
	return t != nil && (t.ExitCode != 0 || t.Reason == ReasonOOMKilled)
}

// startErrors are the reasons of a command that could not be run. Only their message
// comes from the runtime. The message of any other end can contain log lines and is never
// shown.
var startErrors = map[string]bool{"StartError": true, "ContainerCannotRun": true}

// unseenReasons are the reasons of ends that no one saw: of the kubelet, and of containerd after a
// restart of the node. The exit codes 137 and 255 are their own.
var unseenReasons = map[string]bool{"ContainerStatusUnknown": true, "Unknown": true}

// unseenEnd is the message about such an end.
func (c *container) unseenEnd() string {
	return "the node has no record of how " + c.label() + " ended"
}

// signalExitBase plus the number of a signal is the exit code of the process that it
// killed.
const signalExitBase = 128

// signalAdvice explains the signals that usually end containers.
var signalAdvice = map[int32]string{
	6:  "the process aborted itself",
	9:  "it did not stop within its grace period, or one of its processes exceeded the memory limit, or another process killed it",
	11: "it accessed invalid memory, which is a bug in the program or in a library",
	15: "it was asked to stop",
}

// codeAdvice explains the conventional exit codes.
var codeAdvice = map[int32]string{
	126: "its command is not executable; check command and args",
	127: "its command was not found; check the image, command and args",
}

// crashCause is the cause of a container that ended. If t is nil, nothing is known about
// the end.
func (c *container) crashCause(reason string, t *corev1.ContainerStateTerminated) Cause {
	if t == nil {
		return c.withCrashCount(c.cause(reason, explanation{message: c.label() + " keeps ending", advice: c.logAdvice()}), nil)
	}
	if t.Reason == ReasonOOMKilled {
		return c.withCrashCount(c.cause(ReasonOOMKilled, c.outOfMemoryText()), t)
	}
	if startErrors[t.Reason] {
		return c.withCrashCount(c.createCause(ReasonRunContainerError, t.Message), t)
	}
	if unseenReasons[t.Reason] {
		cause := c.withCrashCount(c.cause(ReasonError, explanation{
			message:   c.unseenEnd(),
			advice:    "the node or its kubelet was restarted, or the pod was evicted; wait until the container or pod is replaced",
			transient: true,
		}), t)
		cause.ExitCode = nil
		return cause
	}
	return c.withCrashCount(c.cause(reason, c.exitText(t)), t)
}

// withCrashCount adds how often the container ended, and when it last did.
func (c *container) withCrashCount(cause Cause, t *corev1.ContainerStateTerminated) Cause {
	cause.Count = max(1, c.status.RestartCount)
	if c.status.State.Running == nil && c.status.RestartCount > 0 {
		cause.Count++ // the last end has not been followed by a restart yet
	}
	if t != nil {
		code := t.ExitCode
		cause.ExitCode, cause.Time = &code, t.FinishedAt.Time
	}
	return cause
}

func (c *container) outOfMemoryText() explanation {
	limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]
	if pod := c.pod.Spec.Resources; !ok && pod != nil {
		if limit, limited := pod.Limits[corev1.ResourceMemory]; limited {
			return explanation{
				message: c.label() + " was killed because the pod used more memory than its limit of " + limit.String(),
				advice:  "raise spec.resources.limits.memory of the pod, or reduce its memory use",
			}
		}
	}
	if !ok {
		return explanation{
			message: c.label() + " was killed because it ran out of memory",
			advice:  "reduce its memory use, or set a larger memory request and limit in resources",
		}
	}
	return explanation{
		message: c.label() + " was killed because it used more memory than its limit of " + limit.String(),
		advice:  "raise resources.limits.memory, or reduce its memory use",
	}
}

// exitText describes the exit code or signal, never the container's own output.
func (c *container) exitText(t *corev1.ContainerStateTerminated) explanation {
	r := explanation{message: fmt.Sprintf("%s ended with exit code %d", c.label(), t.ExitCode), advice: c.logAdvice()}
	const other = 255 // also the result of an executable that the node's CPU cannot run
	if known, ok := codeAdvice[t.ExitCode]; ok {
		r.advice = known
	} else if t.ExitCode == other {
		r.advice += `; if the log contains "exec format error", the image is built for another CPU architecture`
	}
	if signal := signalOf(t); signal > 0 {
		r.message = fmt.Sprintf("%s was killed by signal %d (exit code %d)", c.label(), signal, t.ExitCode)
		if known, ok := signalAdvice[signal]; ok {
			r.advice = known + "; " + c.logAdvice()
		}
	}
	if t.ExitCode == 0 {
		r.advice = "its command must not end; check command and args"
	}
	if probe, text := c.killedByProbe(t); probe != "" {
		r.message += " after its " + probe + " probe failed" + text
		r.advice = "check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)"
	}
	return r
}

func signalOf(t *corev1.ContainerStateTerminated) int32 {
	const last = 64
	switch {
	case t.Signal > 0:
		return t.Signal
	case t.ExitCode > signalExitBase && t.ExitCode <= signalExitBase+last:
		return t.ExitCode - signalExitBase
	}
	return 0
}

// killedByProbe returns which probe ended the container with t, and the error of the probe.
// It returns "" if none did.
func (c *container) killedByProbe(t *corev1.ContainerStateTerminated) (probe, text string) {
	own := c.ownEvents()
	kill := latest(own, "Killing")
	if kill == nil || !c.explainsEnd(kill, t) {
		return "", ""
	}
	for _, probe := range []string{"liveness", "startup"} {
		if strings.Contains(kill.Note, "failed "+probe+" probe") {
			return probe, probeError(own, probe)
		}
	}
	return "", ""
}

// explainsEnd reports whether a Killing Event belongs to the end t. It came while that
// container ran, and its grace period was not over at the end.
func (c *container) explainsEnd(kill *Event, t *corev1.ContainerStateTerminated) bool {
	if kill.LastSeen.IsZero() || t.FinishedAt.IsZero() {
		return true
	}
	grace := maxEventDelay + time.Duration(ptr.Deref(c.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))*time.Second
	return !kill.LastSeen.Before(t.StartedAt.Time) && !kill.LastSeen.Before(t.FinishedAt.Add(-grace)) &&
		!kill.LastSeen.After(t.FinishedAt.Add(maxEventDelay))
}

// probeError returns the error of the last failure of a probe, as a part of a sentence.
func probeError(events []Event, probe string) string {
	for i := range slices.Backward(events) {
		note := lowerFirst(stripNoise(events[i].Note))
		if events[i].Reason == "Unhealthy" && strings.HasPrefix(note, probe) {
			_, text, _ := strings.Cut(note, ": ")
			return " (" + excerpt(text) + ")"
		}
	}
	return ""
}

// logAdvice returns how to read the log. The log of a deleted pod no longer exists.
func (c *container) logAdvice() string {
	if c.podDeleted {
		return "the pod and its log no longer exist"
	}
	if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return "check its log (" + c.logCommand("") + ")"
	}
	return "check its log (" + c.logCommand(" --previous") + ")"
}

func (c *container) logCommand(options string) string {
	return fmt.Sprintf("kubectl logs -n %s %s -c %s%s", c.pod.Namespace, c.pod.Name, c.name, options)
}

// LastCrash returns the last failed end of any container, even if the container runs
// again, or the last eviction or rejection of a pod. It returns nil if there is none. It leaves
// out pods that succeeded, and ends that explain nothing: those that no one saw, and those of
// containers that were stopped. Use it for crashes between two reconciles.
func LastCrash(pods []*corev1.Pod) *Cause {
	var last *finding
	v := newView(Workload{Pods: pods})
	for _, p := range v.Pods {
		s := &podView{view: v, pod: p}
		for _, f := range s.pastFindings() {
			f.cause.sanitize()
			if last == nil || f.cause.Time.After(last.cause.Time) || f.cause.Time.Equal(last.cause.Time) && compareFindings(f, *last) < 0 {
				last = &f
			}
		}
	}
	if last == nil {
		return nil
	}
	return &last.cause
}

// pastFindings returns the last failed end of each container, or why the pod was ended.
func (s *podView) pastFindings() []finding {
	switch {
	case s.pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case s.pod.Status.Phase == corev1.PodFailed && s.pod.Status.Reason != "":
		return []finding{{cause: s.rejectedCause()}}
	}
	var found []finding
	for _, c := range s.containers() {
		for _, t := range []*corev1.ContainerStateTerminated{c.status.State.Terminated, c.status.LastTerminationState.Terminated} {
			if failed(t) && !unseenReasons[t.Reason] && !c.wasStopped(t) {
				found = append(found, finding{cause: c.crashCause(ReasonError, t), position: c.position})
				break
			}
		}
	}
	return found
}

// wasStopped reports whether the kubelet stopped the container, because the pod is deleted or, for a
// sidecar, because all other containers have ended.
func (c *container) wasStopped(t *corev1.ContainerStateTerminated) bool {
	if c.sidecar && c.pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if c.pod.DeletionTimestamp == nil {
		return false
	}
	grace := time.Duration(ptr.Deref(c.pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return !t.FinishedAt.Time.Before(c.pod.DeletionTimestamp.Add(-grace))
}

var probeRules = []rule{
	{regexp.MustCompile(`(?i)^(\w+) probe failed: .*connection refused`),
		"its ${1} probe cannot connect", "check the probe's port, or wait until the container listens on it", true},
	{regexp.MustCompile(`(?i)^(\w+) probe (?:failed|errored).*exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file)`),
		`its ${1} probe runs the command "${2}", which its image does not contain`, "change the probe's command, or the image", false},
	{regexp.MustCompile(`(?i)^(\w+) probe failed: .*server gave HTTP response to HTTPS client`),
		"its ${1} probe uses HTTPS, but the container answers with HTTP", "correct the probe's scheme", false},
	{regexp.MustCompile(`(?i)^(\w+) probe failed: HTTP probe failed with statuscode: (\d+)`),
		"its ${1} probe returns HTTP status ${2}", "check the probe's path and the container's log", true},
	{regexp.MustCompile(`(?i)^(\w+) probe (?:failed|errored).*(?:Client\.Timeout|deadline exceeded|timed out|i/o timeout)`),
		"its ${1} probe times out", "raise the probe's timeoutSeconds, or check the container's log for the delay", true},
	{regexp.MustCompile(`(?i)^(\w+) probe (?:failed|errored)(?: and resulted in \w+ state)?: ?(.*)`),
		"its ${1} probe fails: ${2}", "check the probe and the container's log", true},
}

// probeCause is the cause of a running container whose probe fails.
func (c *container) probeCause() (Cause, bool) {
	last := c.lastUnhealthy()
	if last == nil {
		return Cause{}, false
	}
	r := matchOr(probeRules, lowerFirst(stripNoise(last.Note)), "check the probe and the container's log")
	r.message, r.transient = c.label()+" is not ready: "+r.message, true
	return c.cause(ReasonUnhealthy, r).withEvent(last), true
}

// lastUnhealthy returns the last Event of a failed probe since the container started. A
// startup probe goes before a liveness probe, and both go before a readiness probe.
func (c *container) lastUnhealthy() *Event {
	var events []Event
	for _, e := range recent(c.ownEvents(), "Unhealthy") {
		if e.LastSeen.IsZero() || !e.LastSeen.Before(c.startedAt()) {
			events = append(events, e)
		}
	}
	for _, probe := range []string{"Startup", "Liveness", ""} {
		for i := range slices.Backward(events) {
			if strings.HasPrefix(events[i].Note, probe) {
				return &events[i]
			}
		}
	}
	return nil
}

// lowerFirst returns s with its first letter in lower case.
func lowerFirst(s string) string {
	if s != "" && s[0] >= 'A' && s[0] <= 'Z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

func (c *container) startedAt() (t time.Time) {
	if running := c.status.State.Running; running != nil {
		t = running.StartedAt.Time
	}
	return t
}
