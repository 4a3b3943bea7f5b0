package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/diagnosis"
)

// Kinds that Events are read of.
const (
	kindPod   = "Pod"
	kindClaim = "PersistentVolumeClaim"
)

// readEvents reads the Events of the pods that are not ready, of their claims, and
// of what makes them if some are missing.
func (q *inquiry) readEvents() {
	names := map[string][]string{kindPod: q.gonePods}
	for _, p := range q.workload.Pods {
		names[kindPod] = append(names[kindPod], p.Name)
	}
	for _, c := range q.workload.Claims {
		names[kindClaim] = append(names[kindClaim], c.Name)
	}
	if q.missing {
		for _, c := range q.controllers {
			names[c.Kind] = append(names[c.Kind], c.Name)
		}
	}
	kinds := make([]string, 0, len(names))
	for kind := range names {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		if len(names[kind]) > 0 && !q.readEventsOf(kind, names[kind]) {
			return
		}
	}
}

// readEventsOf asks for those of one object, or of all of the kind: a request for
// each of many would take longer.
func (q *inquiry) readEventsOf(kind string, names []string) bool {
	selector := fields.Set{"involvedObject.kind": kind}
	if len(names) == 1 {
		selector["involvedObject.name"] = names[0]
	}
	var list corev1.EventList
	return q.list("events", &list, func() {
		for i := range list.Items {
			if e := &list.Items[i]; slices.Contains(names, e.InvolvedObject.Name) {
				q.workload.Events = append(q.workload.Events, eventOf(e))
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingFieldsSelector{Selector: selector.AsSelector()})
}

// eventOf returns what the diagnosis reads of an Event.
func eventOf(e *corev1.Event) diagnosis.Event {
	return diagnosis.Event{
		Type: e.Type, Reason: e.Reason, Note: e.Message,
		Regarding: diagnosis.Object{Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name},
		UID:       e.InvolvedObject.UID, FieldPath: e.InvolvedObject.FieldPath,
		LastSeen: lastSeen(e), Count: timesSeen(e),
	}
}

func lastSeen(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func timesSeen(e *corev1.Event) int64 {
	if e.Series != nil {
		return max(int64(e.Series.Count), 1)
	}
	return max(int64(e.Count), 1)
}

// overQuota tells whether an Event says that a quota is why a pod is missing.
func (q *inquiry) overQuota() bool {
	return slices.ContainsFunc(q.workload.Events, func(e diagnosis.Event) bool {
		return e.Reason == "FailedCreate" && strings.Contains(e.Note, "exceeded quota")
	})
}
