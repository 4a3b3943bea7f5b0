package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// site is a pod that does not run, and what is known of it.
type site struct {
	*view
	pod    *corev1.Pod
	events []Event
}

// container is one of a site's containers. Its specification is empty if it is
// known by its status alone.
type container struct {
	*site
	name    string
	spec    corev1.Container
	status  *corev1.ContainerStatus
	init    bool
	sidecar bool
	place   int
	// vanished: of the pod, there are only Events left.
	vanished bool
}

// called is how a sentence calls the container.
func (c *container) called() string {
	if c.name == "" {
		return "a container"
	}
	return "container " + quote(c.name)
}

// maxFindings is how many are made of a pod: there may be thousands of containers.
const maxFindings = 64

func (v *view) site(p *corev1.Pod) *site {
	return &site{view: v, pod: p, events: v.about(Object{kindPod, p.Name}, p.UID)}
}

func (v *view) pod(p *corev1.Pod) []finding {
	s := v.site(p)
	switch {
	case s.lost(), s.unreachable():
		return []finding{{cause: s.nodeLost()}}
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "":
		return []finding{{cause: s.rejected()}}
	case p.Spec.NodeName == "":
		return s.unscheduled()
	}
	var found []finding
	if !s.started() {
		found = append(found, s.mounting()...)
	}
	for _, c := range s.containers() {
		for _, cause := range c.failing() {
			found = append(found, finding{cause: cause, place: c.place})
		}
		if len(found) >= maxFindings {
			break
		}
	}
	return found
}

// cause returns a cause that lies in the pod.
func (s *site) cause(reason string, r reading) Cause {
	return Cause{
		Reason: reason, Object: Object{kindPod, s.pod.Name}, Count: 1,
		Message: r.message, Advice: r.advice, Passing: r.passing, Time: s.pod.CreationTimestamp.Time,
	}
}

func (c *container) cause(reason string, r reading) Cause {
	cause := c.site.cause(reason, r)
	cause.Container = c.name
	return cause
}

// happened says when and how often, by an Event.
func (c Cause) happened(e *Event) Cause {
	if e == nil {
		return c
	}
	if e.LastSeen.After(c.Time) {
		c.Time = e.LastSeen
	}
	c.Count = max(c.Count, e.times())
	return c
}

// containers returns those of the pod in the order in which they start.
func (s *site) containers() []*container {
	var all []*container
	inits, mains := byContainer(s.pod.Status.InitContainerStatuses), byContainer(s.pod.Status.ContainerStatuses)
	for _, spec := range s.pod.Spec.InitContainers {
		always := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		all = append(all, &container{
			site: s, name: spec.Name, spec: spec, init: true, sidecar: always,
			status: inits[spec.Name],
		})
	}
	for _, spec := range s.pod.Spec.Containers {
		all = append(all, &container{
			site: s, name: spec.Name, spec: spec, status: mains[spec.Name],
		})
	}
	for i, c := range all {
		c.place = i
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
func (s *site) started() bool {
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
func (c *container) failing() []Cause {
	switch state := c.status.State; {
	case c.isNew():
		return c.foretold()
	case state.Waiting != nil:
		return c.waiting(state.Waiting)
	case state.Terminated != nil:
		return c.ended(state.Terminated)
	case c.status.Ready, c.init && !c.sidecar && !c.recentlyCrashed():
		return nil
	}
	return c.notReady()
}

// waiting reads the reason why a container waits.
func (c *container) waiting(w *corev1.ContainerStateWaiting) []Cause {
	if reason, ok := imageReasons[w.Reason]; ok {
		return []Cause{c.image(reason, w.Message)}
	}
	if reason, ok := configReasons[w.Reason]; ok {
		return []Cause{c.config(reason, w.Message)}
	}
	if w.Reason == ReasonCrashLoopBackOff {
		return []Cause{c.crash(ReasonCrashLoopBackOff, c.status.LastTerminationState.Terminated)}
	}
	text := plain(w.Reason + ": " + w.Message)
	return []Cause{c.cause(ReasonCreateContainerError, reading{
		message: c.called() + " does not start: " + quoted(text), passing: true,
	})}
}

// ended is a container that has ended and is not waited for any more, or not yet.
func (c *container) ended(t *corev1.ContainerStateTerminated) []Cause {
	if !failed(t) {
		return nil
	}
	return []Cause{c.crash(ReasonError, t)}
}

// notReady is a container that runs.
func (c *container) notReady() []Cause {
	var causes []Cause
	if c.recentlyCrashed() {
		causes = append(causes, c.crash(ReasonError, c.status.LastTerminationState.Terminated))
	}
	if probe, ok := c.unhealthy(); ok {
		causes = append(causes, probe)
	}
	return causes
}

// foretold is what Events say of a container before its status does.
func (c *container) foretold() []Cause {
	if c.recentlyCrashed() {
		return []Cause{c.crash(ReasonError, c.status.LastTerminationState.Terminated)}
	}
	for i := range slices.Backward(c.events) {
		e := &c.events[i]
		if e.container() != c.name {
			continue
		}
		if e.Reason == "Pulled" || e.Reason == "Created" || e.Reason == "Started" {
			return nil // it has got past what was before
		}
		if cause, ok := c.told(e); ok {
			return []Cause{cause}
		}
	}
	return nil
}

// told reads an Event that says of itself what is wrong with the container.
func (c *container) told(e *Event) (Cause, bool) {
	if reason, ok := imageEvent(e); ok {
		return c.image(reason, e.Note).happened(e), true
	}
	if e.Reason == "Failed" && missing.MatchString(e.Note) {
		return c.config(ReasonCreateContainerConfigError, e.Note).happened(e), true
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
