package match

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Times of the occurrence that tests start with.
var (
	firstSeen = time.Date(2026, 8, 3, 9, 14, 5, 0, time.UTC)
	lastSeen  = firstSeen.Add(90 * time.Minute)
)

var testCompiler = sync.OnceValues(NewCompiler)

func mustCompile(t testing.TB, def Definition) *Alarm {
	t.Helper()
	a, err := compile(t, def)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func compile(t testing.TB, def Definition) (*Alarm, error) {
	t.Helper()
	c, err := testCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c.Compile(def)
}

// clusterAlarm returns a Definition that can match everything.
func clusterAlarm(match ...v1alpha1.EventMatch) Definition {
	return Definition{
		ID:        kube.Key{Kind: alarm.KindClusterAlarm, Name: "test"},
		UID:       "alarm-uid",
		CreatedAt: firstSeen,
		Spec:      v1alpha1.AlarmSpec{Match: match},
	}
}

// namespacedAlarm returns the Definition of an Alarm in a namespace.
func namespacedAlarm(namespace string, match ...v1alpha1.EventMatch) Definition {
	def := clusterAlarm(match...)
	def.ID = kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: "test"}
	return def
}

// podOccurrence returns the twelfth BackOff of a Pod, modified by change.
func podOccurrence(change ...func(*alarm.Occurrence)) *alarm.Occurrence {
	occ := &alarm.Occurrence{
		Increase:   1,
		Position:   100,
		ObservedAt: lastSeen,
		Event: alarm.Event{
			Namespace: "shop", Name: "web-0.1", UID: "event-uid",
			Type: "Warning", Reason: "BackOff", Action: "Restarting",
			Note:  "Back-off restarting failed container app in pod web-0",
			Count: 12, FirstSeen: firstSeen, LastSeen: lastSeen,
			Regarding:           alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "pod-uid"},
			ReportingController: "kubelet", ReportingInstance: "node-0",
		},
	}
	for _, c := range change {
		c(occ)
	}
	return occ
}

// nodeOccurrence returns a NodeReady as a kubelet writes it, in namespace default.
func nodeOccurrence() *alarm.Occurrence {
	return podOccurrence(func(occ *alarm.Occurrence) {
		occ.Event.Namespace = "default"
		occ.Event.Type, occ.Event.Reason = "Normal", "NodeReady"
		occ.Event.Note = "Node node-0 status is now: NodeReady"
		occ.Event.Count = 1
		occ.Event.Regarding = alarm.Reference{Kind: "Node", Name: "node-0", UID: "node-0"}
	})
}

// podContext returns the context of podOccurrence.
func podContext() *alarm.Context {
	return &alarm.Context{
		Resolved: true,
		Cluster:  alarm.Cluster{Name: "prod", Nodes: 3},
		Object: alarm.Object{
			APIVersion: "v1", Kind: "Pod",
			Metadata: alarm.ObjectMeta{
				Namespace: "shop", Name: "web-0", UID: "pod-uid",
				Labels:            map[string]string{"app": "web", "tier": "front"},
				Annotations:       map[string]string{"owner": "anna"},
				CreationTimestamp: firstSeen.Add(-time.Hour),
			},
		},
	}
}

// namespaceLabels implements Namespaces.
type namespaceLabels map[string]map[string]string

func (n namespaceLabels) Labels(namespace string) (map[string]string, bool, alarm.Unread) {
	labels, ok := n[namespace]
	if ok && labels == nil {
		return nil, false, "not now"
	}
	return labels, ok, ""
}

// candidatesOf returns the candidates of both kinds. meter counts those in the namespace.
func candidatesOf(ix *Index, occ *alarm.Occurrence, namespaces Namespaces, meter *Meter) []Candidate {
	return append(ix.ClusterCandidates(occ, namespaces, nil), ix.NamespacedCandidates(occ, meter)...)
}

// outcome evaluates one alarm for an occurrence, through the index.
func outcome(t testing.TB, def Definition, occ *alarm.Occurrence, known *alarm.Context) Result {
	t.Helper()
	namespaces := namespaceLabels{"shop": {"team": "shop"}, "default": {}, "slow": nil}
	candidates := candidatesOf(NewIndex([]*Alarm{mustCompile(t, def)}), occ, namespaces, nil)
	switch len(candidates) {
	case 0:
		return Result{Outcome: NotMatched}
	case 1:
		return candidates[0].Match(t.Context(), known)
	}
	t.Fatalf("one alarm became %d candidates", len(candidates))
	return Result{}
}

func labelSelector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
