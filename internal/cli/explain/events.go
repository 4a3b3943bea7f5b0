package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/eventcache"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
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

// eventOf returns what the diagnosis reads of an Event. When and how often it occurred
// is found as in those of the stream.
func eventOf(e *corev1.Event) diagnosis.Event {
	same := eventsv1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, Type: e.Type, Reason: e.Reason, Note: e.Message, Regarding: e.InvolvedObject,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		same.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return eventcache.EventOf(new(source.Event(&same)))
}

// overQuota tells whether an Event says that a quota is why a pod is missing.
func (q *inquiry) overQuota() bool {
	return slices.ContainsFunc(q.workload.Events, func(e diagnosis.Event) bool {
		return e.Reason == "FailedCreate" && strings.Contains(e.Note, "exceeded quota")
	})
}
