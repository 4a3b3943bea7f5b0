package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// container is a container of a pod. If only its status is known, its spec is empty.
type container struct {
	*podView
	name     string
	spec     corev1.Container
	status   *corev1.ContainerStatus
	init     bool
	sidecar  bool
	position int
	// podDeleted: the pod no longer exists, and only its Events are known.
	podDeleted bool
}

// label returns how messages name the container.
func (c *container) label() string {
	if c.name == "" {
		return "a container"
	}
	return "container " + quote(c.name)
}

func (c *container) cause(reason string, r explanation) Cause {
	cause := c.podView.cause(reason, r)
	cause.Container = c.name
	return cause
}

// containers returns all containers in the order in which they start.
func (s *podView) containers() []*container {
	var all []*container
	inits, mains := byContainer(s.pod.Status.InitContainerStatuses), byContainer(s.pod.Status.ContainerStatuses)
	for _, spec := range s.pod.Spec.InitContainers {
		always := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		all = append(all, &container{
			podView: s, name: spec.Name, spec: spec, init: true, sidecar: always,
			status: inits[spec.Name],
		})
	}
	for _, spec := range s.pod.Spec.Containers {
		all = append(all, &container{
			podView: s, name: spec.Name, spec: spec, status: mains[spec.Name],
		})
	}
	for i, c := range all {
		c.position = i
		if c.status == nil {
			c.status = &corev1.ContainerStatus{Name: c.name}
		}
	}
	return all
}

func byContainer(statuses []corev1.ContainerStatus) map[string]*corev1.ContainerStatus {
	named := make(map[string]*corev1.ContainerStatus, len(statuses))
	for i := range slices.Backward(statuses) {
		named[statuses[i].Name] = &statuses[i]
	}
	return named
}

// isNew reports whether the status does not show yet what the container does.
func (c *container) isNew() bool {
	state := c.status.State
	if state.Waiting != nil {
		return state.Waiting.Reason == "" || state.Waiting.Reason == "ContainerCreating" || state.Waiting.Reason == "PodInitializing"
	}
	return state.Running == nil && state.Terminated == nil
}

// causes returns why the container does not run.
func (c *container) causes() []Cause {
	switch state := c.status.State; {
	case c.isNew():
		return c.causesFromEvents()
	case state.Waiting != nil:
		return c.waitingCauses(state.Waiting)
	case state.Terminated != nil:
		return c.terminatedCauses(state.Terminated)
	case c.status.Ready:
		return nil
	case c.init && !c.sidecar && !c.recentlyCrashed():
		return []Cause{c.initializingCause()}
	}
	return c.notReadyCauses()
}

// waitingCauses returns why the container waits.
func (c *container) waitingCauses(w *corev1.ContainerStateWaiting) []Cause {
	if reason, ok := imageReasons[w.Reason]; ok {
		return []Cause{c.imageCause(reason, w.Message)}
	}
	if reason, ok := configReasons[w.Reason]; ok {
		return []Cause{c.createCause(reason, w.Message)}
	}
	if w.Reason == ReasonCrashLoopBackOff {
		return []Cause{c.crashCause(ReasonCrashLoopBackOff, c.status.LastTerminationState.Terminated)}
	}
	r, ok := match(startRules, stripNoise(w.Message))
	if !ok {
		r = retried(excerpt(stripNoise(w.Reason + ": " + w.Message)))
	}
	r.message = c.label() + " does not start: " + r.message
	return []Cause{c.cause(ReasonCreateContainerError, r)}
}

// terminatedCauses returns why the container ended, unless it ended well.
func (c *container) terminatedCauses(t *corev1.ContainerStateTerminated) []Cause {
	if !failed(t) || c.wasStopped(t) {
		return nil
	}
	return []Cause{c.crashCause(ReasonError, t)}
}

// initializingCause is the cause of a pod whose init container runs.
func (c *container) initializingCause() Cause {
	start, since := c.startedAt(), ""
	if !start.IsZero() {
		since = " since " + start.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	cause := c.cause(ReasonPodInitializing, explanation{
		message: "init " + c.label() + " has been running" + since + ", and the other containers wait for its end",
		advice:  "check its log (" + c.logCommand("") + ")", transient: true,
	})
	if !start.IsZero() {
		cause.Time = start
	}
	return cause
}

// notReadyCauses returns why a running container is not ready.
func (c *container) notReadyCauses() []Cause {
	var causes []Cause
	if c.recentlyCrashed() {
		causes = append(causes, c.crashCause(ReasonError, c.status.LastTerminationState.Terminated))
	}
	if probe, ok := c.probeCause(); ok {
		causes = append(causes, probe)
	}
	return causes
}

// causesFromEvents returns what Events report about a container whose status does not
// show it yet, or else how it ended before.
func (c *container) causesFromEvents() []Cause {
	last := c.status.LastTerminationState.Terminated
	for i := range slices.Backward(c.events) {
		e := &c.events[i]
		if e.Container() != c.name {
			continue
		}
		if e.Reason == "Pulled" || e.Reason == "Created" || e.Reason == "Started" || last != nil && !last.FinishedAt.IsZero() && !e.isAfter(last.FinishedAt.Time) {
			break // earlier failures are over
		}
		if cause, ok := c.causeFromEvent(e); ok {
			return []Cause{cause}
		}
	}
	if c.recentlyCrashed() {
		return []Cause{c.crashCause(ReasonError, last)}
	}
	return nil
}

// causeFromEvent returns the cause that an Event alone is enough for.
func (c *container) causeFromEvent(e *Event) (Cause, bool) {
	if reason, ok := imageReasonOf(e); ok {
		return c.imageCause(reason, e.Note).withEvent(e), true
	}
	if e.Reason == "Failed" && missingReference.MatchString(e.Note) {
		return c.createCause(ReasonCreateContainerConfigError, e.Note).withEvent(e), true
	}
	return Cause{}, false
}

// recentlyCrashed reports whether the container has not been ready since it last crashed.
func (c *container) recentlyCrashed() bool {
	const lag = time.Minute // between the end and the condition
	last := c.status.LastTerminationState.Terminated
	if !failed(last) || c.status.Ready {
		return false
	}
	ready := condition(c.pod, corev1.ContainersReady)
	return ready == nil || last.FinishedAt.IsZero() || !last.FinishedAt.Add(lag).Before(ready.LastTransitionTime.Time)
}
