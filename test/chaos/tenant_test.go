package chaos

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// nodeLabel is metadata of Nodes that a tenant must not see.
const nodeLabel = "known-to-administrators"

// TestATenantReceivesNoEventsOfOtherNamespaces writes all Events that the API server
// accepts, in both API groups, with consistent and with inconsistent namespaces.
func TestATenantReceivesNoEventsOfOtherNamespaces(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "administrator")
	tenant := s.tenant(s.namespace)
	// The namespace in which Events of Nodes are stored may have a tenant, too.
	defaultTenant := s.tenant(metav1.NamespaceDefault)
	other := s.Namespace(t, nil)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", Labels: map[string]string{nodeLabel: "true"}}})
	s.matchAllNamespaces()
	newManager(s, "--allowed-receiver-addresses", "127.0.0.0/8").startReady()

	var accepted, ofTenant, ofDefaultTenant []string
	for _, f := range forgeries(s.namespace, other, metav1.NamespaceDefault) {
		if err := s.Client.Create(t.Context(), f.event); err != nil {
			t.Logf("%s: %v", f.id, err)
			continue
		}
		accepted = append(accepted, f.id)
		switch {
		case f.stored == s.namespace && f.regarding == s.namespace:
			ofTenant = append(ofTenant, f.id)
		case f.stored == metav1.NamespaceDefault && f.regarding == metav1.NamespaceDefault:
			ofDefaultTenant = append(ofDefaultTenant, f.id)
		}
	}
	if len(accepted) <= 2*(len(ofTenant)+len(ofDefaultTenant)) {
		t.Fatal("the API server refused most Events with inconsistent namespaces: they were not tested")
	}
	s.awaitAll(s.receivers[0], accepted)
	assertReceived(t, s, tenant, ofTenant)
	assertReceived(t, s, defaultTenant, ofDefaultTenant)
	s.t.Attr("summary", fmt.Sprintf("%d Events; the tenant received only its own %d", len(accepted), len(ofTenant)))
}

// tenant creates a receiver and an Alarm in a namespace that sends everything it sees.
func (s *fixture) tenant(namespace string) *receiver {
	s.t.Helper()
	r := newReceiver(s.t, "tenant")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "tenant"}
	s.create(&v1alpha1.AlarmReceiver{
		ObjectMeta: meta, Spec: v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(r.URL())}}},
	})
	s.create(&v1alpha1.Alarm{ObjectMeta: meta, Spec: v1alpha1.NamespacedAlarmSpec{
		AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}},
		Receivers: []v1alpha1.ReceiverReference{{Name: meta.Name}},
	}})
	return r
}

// matchAllNamespaces removes the namespace selector of the fixture's alarm.
func (s *fixture) matchAllNamespaces() {
	s.t.Helper()
	alarm := &v1alpha1.ClusterAlarm{}
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: s.namespace}, alarm); err != nil {
		s.t.Fatal(err)
	}
	alarm.Spec.NamespaceSelector = nil
	if err := s.Client.Update(s.t.Context(), alarm); err != nil {
		s.t.Fatal(err)
	}
}

// forgery is an Event that may claim another namespace than its own.
type forgery struct {
	id, stored, regarding string
	event                 client.Object
}

func forgeries(namespaces ...string) []forgery {
	var all []forgery
	for _, stored := range namespaces {
		for _, regarding := range append(namespaces, "") {
			for _, ref := range []corev1.ObjectReference{
				{APIVersion: "v1", Kind: "Pod", Name: "pod"},
				{APIVersion: "v1", Kind: "Node", Name: "node-0"},
				{APIVersion: "v1", Kind: "Namespace", Name: namespaces[len(namespaces)-1]},
			} {
				ref.Namespace = regarding
				all = append(all, forge(stored, ref, len(all))...)
			}
		}
	}
	return all
}

// forge returns an Event of each API group. The number makes their names unique.
func forge(stored string, ref corev1.ObjectReference, n int) []forgery {
	name := func(group string) string { return fmt.Sprintf("forged-%s-%d", group, n) }
	id := func(name string) string { return fmt.Sprintf("%s in %s", name, stored) }
	modern := newEvent(stored, name("events"))
	modern.Regarding, modern.Note = ref, id(modern.Name)
	legacy := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: stored, Name: name("core")}, InvolvedObject: ref,
		Type: corev1.EventTypeNormal, Reason: reason, Message: id(name("core")), Source: corev1.EventSource{Component: "chaos"},
	}
	return []forgery{
		{id: modern.Note, stored: stored, regarding: ref.Namespace, event: modern},
		{id: legacy.Message, stored: stored, regarding: ref.Namespace, event: legacy},
	}
}

func assertReceived(t *testing.T, s *fixture, r *receiver, expected []string) {
	t.Helper()
	s.awaitAll(r, expected)
	if report := r.Audit(expected, identify); len(report.Unexpected) > 0 {
		t.Errorf("the tenant received %q, want only its own Events", report.Unexpected)
	}
	for _, request := range r.Requests() {
		if bytes.Contains(request.Body, []byte(nodeLabel)) {
			t.Errorf("a message to the tenant contains labels of a Node: %s", request.Body)
		}
	}
}
