package chaos

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// A tenant knows the URL of the administrator's chat, and has many receivers that use it.
// Many others never answer.
func TestTheReceiversOfATenantDelayNoMessageOfTheAdministrator(t *testing.T) {
	const (
		attackers = 48 // of each sort
		messages  = 5
	)
	admin, tenant := newFixture(t, cluster.Shared(t)), newFixture(t, cluster.Shared(t))
	chat, silent := newReceiver(t, "chat"), newReceiver(t, "silent")
	silent.Always(sink.Hang())
	admin.administratorsChat(chat)
	for i := range attackers {
		tenant.hostile(fmt.Sprintf("chat-%d", i), v1alpha1.AlarmReceiverSpec{Slack: &v1alpha1.SlackReceiver{WebhookURLSecretRef: tenant.secretURL(i, chat)}})
		tenant.hostile(fmt.Sprintf("silent-%d", i), v1alpha1.AlarmReceiverSpec{
			TimeoutSeconds: 600,
			Webhook:        &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(silent.URL())}},
		})
	}
	newManager(admin, "--allowed-receiver-addresses", "127.0.0.0/8").startReady()

	before := admin.latency(chat, "before", messages)
	tenant.burst(messages)
	silent.awaitMore(t, 32)
	during := admin.latency(chat, "during", messages)
	t.Attr("summary", fmt.Sprintf("the administrator's message takes %v, and %v during the attack", before, during))
	if during > 2*before {
		t.Errorf("the administrator's message takes %v during the attack, and %v without it", during, before)
	}
	if got := len(silent.Requests()); got != 32 {
		t.Errorf("%d requests of the tenant are in flight, want 32", got)
	}
}

// administratorsChat creates a ClusterAlarmReceiver for a chat, and a ClusterAlarm that uses
// it.
func (s *fixture) administratorsChat(chat *receiver) {
	s.t.Helper()
	meta, url := metav1.ObjectMeta{Name: s.namespace}, s.secretURL(0, chat)
	url.Namespace = s.namespace
	s.create(&v1alpha1.ClusterAlarmReceiver{ObjectMeta: meta, Spec: clusterSpec(v1alpha1.AlarmReceiverSpec{
		Slack: &v1alpha1.SlackReceiver{WebhookURLSecretRef: url},
	})})
	s.create(&v1alpha1.ClusterAlarm{ObjectMeta: meta, Spec: v1alpha1.ClusterAlarmSpec{
		AlarmSpec:         v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
		Receivers:         []v1alpha1.ClusterReceiverReference{{Name: s.namespace}},
	}})
}

// secretURL creates a Secret with the URL of a receiver.
func (s *fixture) secretURL(i int, r *receiver) *v1alpha1.SecretURLReference {
	s.t.Helper()
	name := fmt.Sprintf("url-%d", i)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{"url": []byte(r.URL())}})
	return &v1alpha1.SecretURLReference{SecretReference: v1alpha1.SecretReference{Name: name}, Key: "url"}
}

// hostile creates a receiver, and an Alarm that sends everything to it.
func (s *fixture) hostile(name string, spec v1alpha1.AlarmReceiverSpec) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	s.create(&v1alpha1.AlarmReceiver{ObjectMeta: meta, Spec: spec})
	s.create(&v1alpha1.Alarm{ObjectMeta: meta, Spec: v1alpha1.NamespacedAlarmSpec{
		AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}},
		Receivers: []v1alpha1.ReceiverReference{{Name: name}},
	}})
}

// latency creates Events one after the other, and returns the median time until the
// receiver accepted a message about them.
func (s *fixture) latency(r *receiver, prefix string, n int) time.Duration {
	s.t.Helper()
	var all []time.Duration
	for i := range n {
		event := newEvent(s.namespace, fmt.Sprintf("%s%d", prefix, i))
		begin := time.Now()
		s.create(event)
		if !r.Wait(patience, func(requests []sink.Request) bool {
			return slices.ContainsFunc(requests, func(q sink.Request) bool { return bytes.Contains(q.Body, []byte(s.namespace+"/"+event.Name)) })
		}) {
			s.t.Fatalf("receiver %s got no message about %s", r.name, event.Name)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all[n/2].Round(time.Millisecond)
}
