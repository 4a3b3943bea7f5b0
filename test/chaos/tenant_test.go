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

// nodeLabel stands for what a tenant may not know of the cluster's Nodes.
const nodeLabel = "known-to-administrators"

// TestATenantSeesNothingOfOthers writes all Events that the API server accepts, in
// both of its groups, with namespaces that agree and such that do not.
func TestATenantSeesNothingOfOthers(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "administrator")
	tenant := s.tenant(s.namespace)
	// Where Events of Nodes are stored there may be a tenant too.
	landlord := s.tenant(metav1.NamespaceDefault)
	other := s.Namespace(t, nil)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", Labels: map[string]string{nodeLabel: "true"}}})
	s.everywhere()
	newManager(s, "--allowed-receiver-addresses", "127.0.0.0/8").startAtWork()

	var accepted, ofTenant, ofLandlord []string
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
			ofLandlord = append(ofLandlord, f.id)
		}
	}
	if len(accepted) <= 2*(len(ofTenant)+len(ofLandlord)) {
		t.Fatal("the API server refused most Events of which the namespaces disagree: the test did not test")
	}
	s.awaitAll(s.receivers[0], accepted)
	assertSaw(t, s, tenant, ofTenant)
	assertSaw(t, s, landlord, ofLandlord)
	s.t.Attr("summary", fmt.Sprintf("of %d Events the tenant saw its own %d", len(accepted), len(ofTenant)))
}

// tenant lets an Alarm of a namespace send all that it sees.
func (s *stage) tenant(namespace string) *receiver {
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

// everywhere lets the stage's alarm see all namespaces.
func (s *stage) everywhere() {
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

// forgery is an Event that says that it is of other namespaces than it may be.
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

// forge makes an Event of each group. The number tells them apart at the receiver,
// which knows them by what they regard.
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

func assertSaw(t *testing.T, s *stage, r *receiver, expected []string) {
	t.Helper()
	s.awaitAll(r, expected)
	if report := r.Audit(expected, identify); len(report.Unexpected) > 0 {
		t.Errorf("the tenant saw %q", report.Unexpected)
	}
	for _, request := range r.Requests() {
		if bytes.Contains(request.Body, []byte(nodeLabel)) {
			t.Errorf("the tenant was told of a Node: %s", request.Body)
		}
	}
}
