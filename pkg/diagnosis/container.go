package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// imageRules match the errors of container runtimes. The order matters: a registry that
// requires a login also answers "denied" for an image that does not exist.
var imageRules = []rule{
	{regexp.MustCompile(`(?i)toomanyrequests|too many requests|rate limit`),
		"the registry's rate limit is reached", "wait, or add the credentials of an account to imagePullSecrets", true},
	{regexp.MustCompile(`(?i)no such host|server misbehaving`),
		"the registry's host name cannot be resolved", "check the host in the image name", true},
	{regexp.MustCompile(`(?i)x509|certificate|server gave HTTP response`),
		"the node does not trust the registry's certificate, or the registry does not use TLS", "ask the cluster's administrator to make the nodes trust the registry", false},
	{regexp.MustCompile(`(?i)i/o timeout|connection refused|connection reset|timeout|no route to host|network is unreachable|` +
		`registry is unavailable|deadline exceeded|unexpected status.*: 5\d\d|: EOF`),
		"the registry cannot be reached", "check the host in the image name; if it is correct, wait until the registry is available", true},
	{regexp.MustCompile(`(?i)signature validation failed`),
		"its signature is not valid", "use a signed image, or ask the cluster's administrator which images are allowed", false},
	{regexp.MustCompile(`(?i)denied|unauthorized|authorization failed|forbidden|authentication required|no basic auth|insufficient_scope|40[13]`),
		"the registry denies access, or has no such repository", "check the image name, and that imagePullSecrets names a Secret with credentials for the image", false},
	{regexp.MustCompile(`(?i)no match for platform|no matching manifest`),
		"the image is not built for the node's CPU architecture", "use an image for this architecture, or select other nodes", false},
	{regexp.MustCompile(`(?i)not ?found|manifest unknown|name unknown|does not exist`),
		"the registry has no such image or tag", "check the image name and tag", false},
	{regexp.MustCompile(`(?i)no space left`),
		"the node's disk is full", "wait until the node frees disk space, or ask the cluster's administrator", true},
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
	r := matchOr(imageRules, detail, "check the image name and the registry")
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = what + " cannot be pulled" + r.message
	return c.cause(reason, r).withEvent(last)
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
		if e := &events[i]; e.container() == container && isPullFailure(e) {
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
	{regexp.MustCompile(`failed to sync (\w+) cache|services have not yet been read`),
		"the node has not loaded the objects that it refers to", "wait", true},
	{regexp.MustCompile(`subPath`), "a subPath in its volumeMounts cannot be prepared", "check the volumeMounts and the contents of the volume", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file or directory)`),
		`its image does not contain the command "${1}"`, "check the image, command and args", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": permission denied`),
		`its command "${1}" cannot be executed: permission denied`, "check command, or make the file executable", false},
	{regexp.MustCompile(`no command specified`), "neither the container nor its image specifies a command", "set command", false},
	{regexp.MustCompile(`context deadline exceeded|is reserved for`),
		"the node takes too long to create it", "wait; if the problem persists, ask the cluster's administrator", true},
	{regexp.MustCompile(`no space left`), "the node's disk is full", "wait until the node frees disk space, or ask the cluster's administrator", true},
}

// createCause is the cause of a container that cannot be created or started.
func (c *container) createCause(reason, message string) Cause {
	last := latest(c.ownEvents(), "Failed", "FailedPostStartHook")
	if message == "" && last != nil {
		message = last.Note
	}
	r := matchOr(configRules, stripNoise(message), "")
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
		if e.container() == c.name {
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

// signalExitBase plus the number of a signal is the exit code of the process that it
// killed.
const signalExitBase = 128

// signalAdvice explains the signals that usually end containers.
var signalAdvice = map[int32]string{
	6:  "the process aborted itself",
	9:  "it was killed by one of its own processes or by the node, and not for exceeding its memory limit",
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
	if known, ok := codeAdvice[t.ExitCode]; ok {
		r.advice = known
	}
	if signal := signalOf(t); signal > 0 {
		r.message = fmt.Sprintf("%s was killed by signal %d (exit code %d)", c.label(), signal, t.ExitCode)
		if known, ok := signalAdvice[signal]; ok {
			r.advice = known + "; " + c.logAdvice()
		}
	}
	if probe := c.killedByProbe(); probe != "" {
		r.message += " after its " + probe
		r.advice = "check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)"
	}
	if t.ExitCode == 0 {
		r.advice = "its command must not end; check command and args"
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

// killedByProbe returns which probe restarted the container, or "".
func (c *container) killedByProbe() string {
	kill := latest(c.ownEvents(), "Killing")
	for _, probe := range []string{"liveness", "startup"} {
		if kill != nil && strings.Contains(kill.Note, "failed "+probe+" probe") {
			return probe + " probe failed"
		}
	}
	return ""
}

// logAdvice returns how to read the log. The log of a deleted pod no longer exists.
func (c *container) logAdvice() string {
	if c.podDeleted {
		return "the pod and its log no longer exist"
	}
	previous := " --previous"
	if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		previous = ""
	}
	return fmt.Sprintf("check its log (kubectl logs %s -c %s%s)", c.pod.Name, c.name, previous)
}

// LastCrash returns the last failed end of any container, even if the container runs
// again. It returns nil if there is none. Use it for crashes between two reconciles.
func LastCrash(pods []*corev1.Pod) *Cause {
	var last *finding
	v := newView(Workload{Pods: pods})
	for _, p := range v.Pods {
		s := &podView{view: v, pod: p}
		for _, c := range s.containers() {
			t := c.lastEnd()
			if !failed(t) {
				continue
			}
			f := finding{cause: c.crashCause(ReasonError, t), position: c.position}
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

func (c *container) lastEnd() *corev1.ContainerStateTerminated {
	if c.status.State.Terminated != nil {
		return c.status.State.Terminated
	}
	return c.status.LastTerminationState.Terminated
}

var probeRules = []rule{
	{regexp.MustCompile(`(?i)^(\w+) probe failed: .*connection refused`),
		"its ${1} probe cannot connect", "check the probe's port, or wait until the container listens on it", true},
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
