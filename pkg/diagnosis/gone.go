package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gone returns what became of the last pod that there was, by the Events that it
// left. A container's exit code, or that it was out of memory, is not in any.
func (v *view) deletedPodFindings() []finding {
	last := v.lastPodEvent()
	if last == nil {
		return nil
	}
	events := v.eventsFor(last.Regarding, last.UID)
	s := &podView{view: v, events: events, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: last.Regarding.Name, UID: last.UID}}}
	for i := range slices.Backward(events) {
		if cause, ok := s.fromLastEvent(&events[i]); ok {
			return []finding{{cause: cause}}
		}
	}
	return nil
}

// lastPod returns the last Event that regards a pod, or nil.
func (v *view) lastPodEvent() *Event {
	for i := range slices.Backward(v.Events) {
		if v.Events[i].Regarding.Kind == kindPod {
			return &v.Events[i]
		}
	}
	return nil
}

var imageOf = regexp.MustCompile(`image "([^"]+)"`)

// left reads an Event of a pod that is gone.
func (s *podView) fromLastEvent(e *Event) (Cause, bool) {
	c := &container{podView: s, podDeleted: true, name: e.container(), status: &corev1.ContainerStatus{}}
	if m := imageOf.FindStringSubmatch(e.Note); m != nil {
		c.spec.Image = m[1]
	}
	if cause, ok := c.causeFromEvent(e); ok {
		return cause, true
	}
	switch e.Reason {
	case "Evicted", "Preempting":
		s.pod.Status = corev1.PodStatus{Reason: e.Reason, Message: e.Note}
		return s.rejectedCause(), true
	case "FailedScheduling":
		found := s.schedulingFindings()
		if len(found) == 0 {
			return Cause{}, false
		}
		return found[0].cause, true
	case "FailedAttachVolume":
		return s.volumeCause(ReasonFailedAttachVolume, e), true
	case "FailedMount", "FailedMapVolume":
		return s.volumeCause(ReasonFailedMount, e), true
	case "BackOff":
		return c.crashCause(ReasonCrashLoopBackOff, nil).withEvent(e), strings.HasPrefix(e.Note, "Back-off restarting failed container")
	case "Unhealthy":
		return c.probeCause()
	}
	return Cause{}, false
}
