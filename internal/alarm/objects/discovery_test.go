package objects

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestAKindIsClusterScopedIfNoGroupServesItWithANamespace(t *testing.T) {
	longhorn := schema.GroupVersion{Group: "longhorn.io", Version: "v1beta2"}
	nodes := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "nodes", Kind: "Node"}, {Name: "nodes/proxy", Kind: "NodeProxyOptions"}, {Name: "pods", Kind: "Pod", Namespaced: true},
	}}
	twins := &metav1.APIResourceList{GroupVersion: longhorn.String(), APIResources: []metav1.APIResource{{Name: "nodes", Kind: "Node", Namespaced: true}}}
	for name, tc := range map[string]struct {
		lists  []*metav1.APIResourceList
		failed map[schema.GroupVersion]error
		kind   string
		want   bool
	}{
		"without a namespace":         {lists: []*metav1.APIResourceList{nodes}, kind: "Node", want: true},
		"with a namespace":            {lists: []*metav1.APIResourceList{nodes}, kind: "Pod"},
		"in one group with":           {lists: []*metav1.APIResourceList{nodes, twins}, kind: "Node"},
		"in a group that is down":     {lists: []*metav1.APIResourceList{nodes}, failed: map[schema.GroupVersion]error{longhorn: errors.New("down")}, kind: "Node"},
		"which does not exist":        {lists: []*metav1.APIResourceList{nodes}, kind: "Widget"},
		"which only a subresource is": {lists: []*metav1.APIResourceList{nodes}, kind: "NodeProxyOptions"},
	} {
		if got := NewServed(nil, tc.lists, tc.failed).ClusterScoped(tc.kind); got != tc.want {
			t.Errorf("a kind %s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestAMisspeltKindIsNamedIfAllKindsAreKnown(t *testing.T) {
	pods := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}, {Name: "bindings", Kind: "Binding"}}}}
	down := map[schema.GroupVersion]error{{Group: "a.example", Version: "v1"}: errors.New("down")}
	for kind, want := range map[string]string{"Pods": "Pod", "pod": "Pod", "Pod": "", "Widget": ""} {
		if got := NewServed(nil, pods, nil).Meant(kind); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
		if got := NewServed(nil, pods, down).Meant(kind) + (Served{}).Meant(kind); got != "" {
			t.Errorf("%s: got %q although not all kinds are known", kind, got)
		}
	}
}

// A worker that waits for a hanging aggregated API delays other alarms.
func TestACheckOfKindsDoesNotWaitForAnotherDiscovery(t *testing.T) {
	inScene(t, func(s *scene) {
		s.hang = make(chan struct{})
		defer close(s.hang)
		s.needs.Add(alarm.Resource{Group: "down.example.com", Resource: "widgets"}, shape(t, "spec"), everywhere)
		s.source.catalog.expire()
		s.source.SetNeeds(s.needs)
		time.Sleep(2 * time.Second)
		began := time.Now()
		if s.source.Kinds(s.t.Context(), []string{"Node"}).IsKnown() || time.Since(began) > kindsTimeout {
			t.Errorf("it took %v, and must be unknown after %v", time.Since(began), kindsTimeout)
		}
	})
}

func TestAFailedDiscoveryIsNotRepeatedForEachAlarm(t *testing.T) {
	inScene(t, func(s *scene) {
		s.source.catalog.expire()
		var asked atomic.Int64
		s.with(func() {
			s.broken = true
			s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/api" {
					asked.Add(1)
				}
				return false
			}
		})
		ask := func(want int64, when string) {
			t.Helper()
			s.source.Kinds(s.t.Context(), []string{"Node"})
			if got := asked.Load(); got != want {
				t.Errorf("the API server was asked %d times %s, want %d", got, when, want)
			}
		}
		ask(1, "for the first alarm")
		ask(1, "for the second")
		time.Sleep(time.Minute)
		ask(2, "after a minute")
	})
}
