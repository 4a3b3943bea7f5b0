package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probeRules match what the kubelet writes about a probe that failed.
var probeRules = []rule{
	{name: "probe-malformed-http", problem: lasting, means: MeansWrongPort,
		text:    compile(`(?i)^(\w+) probe failed: .*malformed HTTP response`),
		message: "its ${1} probe uses HTTP, but the container does not answer with HTTP",
		advice:  "correct the probe's scheme or port"},
	{name: "probe-command-permission-denied", problem: lasting,
		text:    compile(`(?i)^(\w+) probe (?:failed|errored).*exec: \\?"([^"\\]*)\\?": permission denied`),
		message: `its ${1} probe runs the command "${2}", which cannot be executed: permission denied`,
		advice:  "change the probe's command, or make the file executable"},
	{name: "probe-port-not-defined", problem: lasting, means: MeansUndefinedPort,
		text:    compile(`(?i)^(\w+) probe errored.*: (?:parsing ("[^"]*"): invalid syntax|port ("[^"]*") not found)`),
		message: "its ${1} probe names port ${2}${3}, which ports of the container does not define",
		advice:  "correct the port of the probe, or add the name to ports"},
	{name: "probe-fails-silently", problem: passing,
		text:    compile(`(?i)^(\w+) probe failed:?$`),
		message: "its ${1} probe fails without a message",
		advice:  "run the probe's command in the container, or check the container's log"},
	{name: "probe-command-not-found-crun", problem: lasting,
		text:    compile("(?i)^(\\w+) probe (?:failed|errored).*executable file `([^`]*)` not found"),
		message: `its ${1} probe runs the command "${2}", which its image does not contain`,
		advice:  "change the probe's command, or the image"},
	{name: "probe-no-route", problem: passing,
		text:    compile(`(?i)^(\w+) probe failed: .*no route to host`),
		message: "the node cannot reach the pod for its ${1} probe: no route to host",
		advice:  administratorLater, late: administrator},
	{name: "probe-connection-closed", problem: passing, means: MeansWrongPort,
		text:    compile(`(?i)^(\w+) probe failed: .*(?:connection reset by peer|: EOF$)`),
		message: "its ${1} probe gets no answer: the container closes the connection",
		advice:  "check the probe's port and scheme, and the container's log"},
	{name: "probe-container-exited", problem: passing,
		text:    compile(`(?i)^(\w+) probe errored.* container is in CONTAINER_EXITED state`),
		message: "it had ended when its ${1} probe ran",
		advice:  "find out why it ended: see its exit code and its log"},
	{name: "probe-no-grpc-health-service", problem: lasting,
		text:    compile(`(?i)^(\w+) probe failed: .*does not implement the grpc health protocol`),
		message: "its server does not offer the gRPC health service, which its ${1} probe asks",
		advice:  "add grpc.health.v1.Health to the server, or use another type of probe"},
	{name: "probe-grpc-connect-timeout", problem: passing, means: MeansWrongPort,
		text:    compile(`(?i)^(\w+) probe failed: timeout: failed to connect service`),
		message: "its ${1} probe cannot connect",
		advice:  "check the probe's port, or wait until the container listens on it; if it is slow, raise timeoutSeconds",
		late:    "check the probe's port, and the container's log; if it is slow, raise timeoutSeconds"},
	{name: "probe-connection-refused", problem: passing, means: MeansWrongPort,
		text:    compile(`(?i)^(\w+) probe failed: .*connection refused`),
		message: "its ${1} probe cannot connect",
		advice:  "check the probe's port, or wait until the container listens on it",
		late:    "check the probe's port, and the container's log"},
	{name: "probe-command-not-found", problem: lasting,
		text:    compile(`(?i)^(\w+) probe (?:failed|errored).*exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file)`),
		message: `its ${1} probe runs the command "${2}", which its image does not contain`,
		advice:  "change the probe's command, or the image"},
	{name: "probe-https-answered-with-http", problem: lasting,
		text:    compile(`(?i)^(\w+) probe failed: .*(?:server gave HTTP response to HTTPS client|first record does not look like a TLS handshake)`),
		message: "its ${1} probe uses HTTPS, but the container answers with HTTP",
		advice:  "correct the probe's scheme"},
	{name: "probe-login-required", problem: passing,
		text:    compile(`(?i)^(\w+) probe failed: HTTP probe failed with statuscode: (40[13])`),
		message: "its ${1} probe returns HTTP status ${2}",
		advice:  "use a path that needs no login, or set httpHeaders of the probe"},
	{name: "probe-command-oom-killed", problem: passing,
		text:    compile(`(?i)^(\w+) probe errored.*possibly OOM-killed`),
		message: "the command of its ${1} probe cannot be started; the memory limit of the container can be reached",
		advice:  "raise resources.limits.memory, or reduce the memory use of the container"},
	{name: "probe-http-status", problem: passing,
		text:    compile(`(?i)^(\w+) probe failed: HTTP probe failed with statuscode: (\d+)`),
		message: "its ${1} probe returns HTTP status ${2}",
		advice:  "check the probe's path and the container's log"},
	{name: "probe-timeout", problem: passing,
		text:    compile(`(?i)^(\w+) probe (?:failed|errored).*(?:Client\.Timeout|deadline exceeded|timed out|i/o timeout|did not complete within)`),
		message: "its ${1} probe times out",
		advice:  "raise the probe's timeoutSeconds, or check the container's log for the delay"},
	{name: "probe-fails", problem: passing,
		text:    compile(`(?i)^(\w+) probe (?:failed|errored)(?: and resulted in \w+ state)?: ?(.*)`),
		message: "its ${1} probe fails: ${2}",
		advice:  "check the probe and the container's log"},
}

// probeCause is the cause of a running container whose probe fails.
func (c *container) probeCause() (Cause, bool) {
	last := c.lastUnhealthy()
	if last == nil {
		return Cause{}, false
	}
	r := matchOr(probeRules, lowerFirst(stripNoise(last.Note)), "check the probe and the container's log")
	r.transient = true
	if late, text := c.startsUntil(last.Note); c.Now.Before(late) {
		r.message, r.advice = c.label()+" is still starting: "+r.message+text, "wait; after that time, it is a failure"
		cause := c.cause(ReasonUnhealthy, r).withEvent(last)
		cause.LateAfter = late
		return cause, true
	}
	r = c.namePorts(r, last.Note)
	r.message = c.label() + " is not ready: " + r.message
	return c.cause(ReasonUnhealthy, r).withEvent(last), true
}

// startsUntil returns until when failures of a probe are a normal start of the container, and a text
// about it. The time is zero if it is unknown. A container that has been ready before does not start.
func (c *container) startsUntil(note string) (late time.Time, text string) {
	p := c.probe(note)
	if p == nil || c.Now.IsZero() || c.startedAt().IsZero() {
		return time.Time{}, ""
	}
	failures, period := cmp.Or(p.FailureThreshold, 3), cmp.Or(p.PeriodSeconds, 10) // as the API server sets them
	patience := time.Duration(p.InitialDelaySeconds+failures*period) * time.Second
	return c.startedAt().Add(patience), fmt.Sprintf("; it may fail %d times in a row, which takes %s", failures, inWords(patience))
}

// inWords formats a duration in seconds or in minutes.
func inWords(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}

// maxPorts limits the ports in a message.
const maxPorts = 5

// namePorts names the port that a probe asks, and the ports of the container, if the port can be
// wrong. If only the status of a pod is known, there are none.
func (c *container) namePorts(r explanation, note string) explanation {
	if r.means != MeansWrongPort && r.means != MeansUndefinedPort {
		return r
	}
	if asked := c.askedPort(note); asked != "" && r.means != MeansUndefinedPort {
		r.message = strings.Replace(r.message, " probe ", " probe of port "+asked+" ", 1)
	}
	var ports []string
	for _, p := range c.spec.Ports {
		port := strconv.Itoa(int(p.ContainerPort))
		if p.Name != "" {
			port += " (" + p.Name + ")"
		}
		ports = append(ports, port)
	}
	if more := len(ports) - maxPorts; more > 0 {
		ports = append(ports[:maxPorts], fmt.Sprintf("%d more", more))
	}
	if len(ports) > 0 {
		named := "; ports of the container: " + strings.Join(ports, ", ")
		r.advice += named
		if r.late != "" {
			r.late += named
		}
	}
	return r
}

// probe returns the probe that an Event is about, or nil if it is unknown.
func (c *container) probe(note string) *corev1.Probe {
	kind, _, _ := strings.Cut(note, " ")
	return map[string]*corev1.Probe{"Startup": c.spec.StartupProbe, "Liveness": c.spec.LivenessProbe, "Readiness": c.spec.ReadinessProbe}[kind]
}

// askedPort returns the port that the probe of an Event asks, as in the pod's spec. It is empty if
// the probe is unknown, or runs a command.
func (c *container) askedPort(note string) string {
	switch p := c.probe(note); {
	case p == nil:
		return ""
	case p.HTTPGet != nil:
		return p.HTTPGet.Port.String()
	case p.TCPSocket != nil:
		return p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return strconv.Itoa(int(p.GRPC.Port))
	}
	return ""
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

// ownEvents returns the Events that regard the container. One without a field regards the only container that is not ready.
func (c *container) ownEvents() []Event {
	unready := 0
	for i := range c.pod.Status.ContainerStatuses {
		if !c.pod.Status.ContainerStatuses[i].Ready {
			unready++
		}
	}
	var own []Event
	for _, e := range c.events {
		if e.Container() == c.name || e.FieldPath == "" && unready == 1 && !c.status.Ready {
			own = append(own, e)
		}
	}
	return own
}

func (c *container) startedAt() (t time.Time) {
	if running := c.status.State.Running; running != nil {
		t = running.StartedAt.Time
	}
	return t
}
