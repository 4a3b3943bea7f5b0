package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// site is a pod that does not run, and what is known of it.
type podView struct {
	*view
	pod    *corev1.Pod
	events []Event
}

// container is one of a site's containers. Its specification is empty if it is
// known by its status alone.
type container struct {
	*podView
	name     string
	spec     corev1.Container
	status   *corev1.ContainerStatus
	init     bool
	sidecar  bool
	position int
	// vanished: of the pod, there are only Events left.
	podDeleted bool
}

// called is how a sentence calls the container.
func (c *container) label() string {
	if c.name == "" {
		return "a container"
	}
	return "container " + quote(c.name)
}

// maxFindings is how many are made of a pod: there may be thousands of containers.
const maxFindings = 64

func (v *view) podView(p *corev1.Pod) *podView {
	return &podView{view: v, pod: p, events: v.eventsFor(Object{kindPod, p.Name}, p.UID)}
}

func (v *view) podCauses(p *corev1.Pod) []finding {
	s := v.podView(p)
	switch {
	case s.isLost(), s.isUnreachable():
		return []finding{{cause: s.nodeLostCause()}}
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "":
		return []finding{{cause: s.rejectedCause()}}
	case p.Spec.NodeName == "":
		return s.schedulingFindings()
	}
	var found []finding
	if !s.hasStarted() {
		found = append(found, s.mountFindings()...)
	}
	for _, c := range s.containers() {
		for _, cause := range c.causes() {
			found = append(found, finding{cause: cause, position: c.position})
		}
		if len(found) >= maxFindings {
			break
		}
	}
	return found
}

// cause returns a cause that lies in the pod.
func (s *podView) cause(reason string, r explanation) Cause {
	return Cause{
		Reason: reason, Object: Object{kindPod, s.pod.Name}, Count: 1,
		Message: r.message, Advice: r.advice, Transient: r.transient, Time: s.pod.CreationTimestamp.Time,
	}
}

func (c *container) cause(reason string, r explanation) Cause {
	cause := c.podView.cause(reason, r)
	cause.Container = c.name
	return cause
}

// happened says when and how often, by an Event.
func (c Cause) withEvent(e *Event) Cause {
	if e == nil {
		return c
	}
	if e.LastSeen.After(c.Time) {
		c.Time = e.LastSeen
	}
	c.Count = max(c.Count, e.count())
	return c
}

// containers returns those of the pod in the order in which they start.
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

// started tells whether a container has got past waiting for its volumes.
func (s *podView) hasStarted() bool {
	return slices.ContainsFunc(s.containers(), func(c *container) bool {
		return !c.isNew() || c.status.LastTerminationState.Terminated != nil
	})
}

// isNew tells whether nothing is said yet of how the container fares.
func (c *container) isNew() bool {
	state := c.status.State
	if state.Waiting != nil {
		return state.Waiting.Reason == "" || state.Waiting.Reason == "ContainerCreating" || state.Waiting.Reason == "PodInitializing"
	}
	return state.Running == nil && state.Terminated == nil
}

// failing returns why the container does not run.
func (c *container) causes() []Cause {
	switch state := c.status.State; {
	case c.isNew():
		return c.causesFromEvents()
	case state.Waiting != nil:
		return c.waitingCauses(state.Waiting)
	case state.Terminated != nil:
		return c.terminatedCauses(state.Terminated)
	case c.status.Ready, c.init && !c.sidecar && !c.recentlyCrashed():
		return nil
	}
	return c.notReadyCauses()
}

// waiting reads the reason why a container waits.
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
	text := stripNoise(w.Reason + ": " + w.Message)
	return []Cause{c.cause(ReasonCreateContainerError, explanation{
		message: c.label() + " does not start: " + excerpt(text), transient: true,
	})}
}

// ended is a container that has ended and is not waited for any more, or not yet.
func (c *container) terminatedCauses(t *corev1.ContainerStateTerminated) []Cause {
	if !failed(t) {
		return nil
	}
	return []Cause{c.crashCause(ReasonError, t)}
}

// notReady is a container that runs.
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

// foretold is what Events say of a container before its status does.
func (c *container) causesFromEvents() []Cause {
	if c.recentlyCrashed() {
		return []Cause{c.crashCause(ReasonError, c.status.LastTerminationState.Terminated)}
	}
	for i := range slices.Backward(c.events) {
		e := &c.events[i]
		if e.container() != c.name {
			continue
		}
		if e.Reason == "Pulled" || e.Reason == "Created" || e.Reason == "Started" {
			return nil // it has got past what was before
		}
		if cause, ok := c.causeFromEvent(e); ok {
			return []Cause{cause}
		}
	}
	return nil
}

// told reads an Event that says of itself what is wrong with the container.
func (c *container) causeFromEvent(e *Event) (Cause, bool) {
	if reason, ok := imageReasonOf(e); ok {
		return c.imageCause(reason, e.Note).withEvent(e), true
	}
	if e.Reason == "Failed" && missingReference.MatchString(e.Note) {
		return c.createCause(ReasonCreateContainerConfigError, e.Note).withEvent(e), true
	}
	return Cause{}, false
}

// recentlyCrashed tells whether the container's last end is why it is not ready: it
// has not been ready since.
func (c *container) recentlyCrashed() bool {
	const lag = time.Minute // between the end and the condition
	last := c.status.LastTerminationState.Terminated
	if !failed(last) || c.status.Ready {
		return false
	}
	ready := condition(c.pod, corev1.ContainersReady)
	return ready == nil || last.FinishedAt.IsZero() || !last.FinishedAt.Add(lag).Before(ready.LastTransitionTime.Time)
}
