package alarms_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// A tenant can write Events with any time. The first one is after the year 9999 in UTC, and JSON
// has no form for it.
func TestAnEventOfAnImpossibleTimeDelaysNoOtherNamespace(t *testing.T) {
	attacker, victim := newScene(t), newScene(t)
	for _, s := range []*scene{attacker, victim} {
		s.create("Alarm", "it", "match: [{reasons: [BackOff]}]"+tail)
		s.ExpectReady(t, s.alarm("it"))
	}
	g := NewWithT(t)
	for name, at := range map[string]string{"future": "9999-12-31T23:59:59-01:00", "past": "0000-01-01T00:00:00+01:00"} {
		event := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"namespace": attacker.namespace, "name": name},
			"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": attacker.namespace, "name": "web-0"},
			"type":           "Warning", "reason": "BackOff", "message": name, "firstTimestamp": at, "lastTimestamp": at,
		}}
		g.Expect(attacker.Client.Create(t.Context(), event)).To(Succeed())
	}
	victim.happen("later")
	g.Eventually(victim.delivered("it")).Should(BeEquivalentTo(1))
	g.Eventually(attacker.delivered("it")).Should(BeEquivalentTo(2))
}

// JSON replaces such texts, but a client can send an Event as protobuf. Several of them become the same text, and
// then one group: what does not come within its first second waits for the interval.
func TestAnEventWithTextsThatAreNotUTF8DelaysNoOtherNamespace(t *testing.T) {
	attacker, victim := newScene(t), newScene(t)
	attacker.create("Alarm", "it", "match: [{}]\ngroup: {by: [regarding.name, reason, reportingController], waitSeconds: 0, intervalSeconds: 30}"+tail)
	attacker.ExpectReady(t, attacker.alarm("it"))
	victim.create("Alarm", "it", "match: [{reasons: [BackOff]}]"+tail)
	victim.ExpectReady(t, victim.alarm("it"))
	config := rest.CopyConfig(attacker.RESTConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	events := kubernetes.NewForConfigOrDie(config).CoreV1().Events(attacker.namespace)
	g := NewWithT(t)
	accepted := int64(0)
	for i, text := range []string{"\xff\xfe", "a\x00b", "\xed\xa0\x80", strings.Repeat("\x80", 2000), "\x1b]0;owned\x07", "\u202e\u009b31m", ""} {
		_, err := events.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: attacker.namespace, Name: fmt.Sprint("forged-", i)},
			InvolvedObject: corev1.ObjectReference{APIVersion: text, Kind: text, Namespace: attacker.namespace, Name: text, UID: types.UID(text), FieldPath: text},
			Type:           text, Reason: text, Message: text, Action: text, ReportingController: text, ReportingInstance: text,
			Source: corev1.EventSource{Component: text, Host: text}, Count: math.MinInt32 + int32(i),
			FirstTimestamp: metav1.Unix(math.MaxInt64, 0), LastTimestamp: metav1.Unix(math.MinInt64, 0),
		}, metav1.CreateOptions{})
		if t.Logf("%q: %v", text[:min(len(text), 10)], err); err == nil {
			accepted++
		}
	}
	if accepted < 3 {
		t.Fatal("the API server refused most Events: they were not tested")
	}
	victim.happen("later")
	g.Eventually(victim.delivered("it")).Should(BeEquivalentTo(1))
	g.Eventually(attacker.delivered("it")).Should(BeEquivalentTo(accepted))
}

// One such object would make the list of all alarms unreadable for the operator.
func TestATimeThatGoCannotReadIsRefused(t *testing.T) {
	c, group := cluster.Shared(t), strings.Repeat("0", 32)
	for _, at := range []string{
		"2026-11-24t12:00:00Z", "2026-11-24T12:00:00z", "2026-11-24T12:00:00+99:99", "2026-11-24T12:00:00:5Z", "2026-11-24T12:00:00ZT",
		"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00",
	} {
		for field, spec := range map[string]string{
			"spec.muteUntil":                 "muteUntil: '" + at + "'",
			"spec.muteFrom":                  "muteUntil: 2026-11-24T12:00:00Z\nmuteFrom: '" + at + "'",
			"spec.acknowledgements[0].since": "acknowledgements: [{group: '" + group + "', since: '" + at + "', time: 2026-11-24T12:00:00Z, by: ana}]",
			"spec.acknowledgements[0].time":  "acknowledgements: [{group: '" + group + "', time: '" + at + "', since: 2026-11-24T12:00:00Z, by: ana}]",
		} {
			t.Run(field+" "+at, func(t *testing.T) {
				wrong := cluster.Manifest(t, "Alarm", metav1.NamespaceDefault, "wrong", "match: [{}]\n"+spec+tail)
				NewWithT(t).Expect(c.Client.Create(t.Context(), wrong, client.DryRunAll)).To(MatchError(ContainSubstring(field + ": Invalid value")))
			})
		}
	}
}
