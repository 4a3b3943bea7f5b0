package alarms_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// The alarm finds receivers that are created after it. Its label and receivers are those of one test.
func TestAClusterAlarmChoosesReceiversByTheLabelOfTheNamespace(t *testing.T) {
	s := newScene(t)
	g := NewWithT(t)
	label := s.namespace
	s.create("ClusterAlarmReceiver", label+"-other", "log: {}")
	s.create("ClusterAlarm", label, "match: [{reasons: [BackOff]}]\nnamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+s.namespace+"}}\n"+
		"receiversFrom: {namespaceLabel: "+label+", default: {name: "+label+"-other}}")
	a := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: label}}
	s.ExpectReady(t, a)
	setLabel := func(value string) {
		s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{"`+label+`":`+value+`}}}`)
	}
	delivered := func(name string) func() int64 {
		return func() int64 {
			r := &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: label + "-" + name}}
			_ = s.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r)
			return r.Status.Delivered
		}
	}
	events := 0
	happen := func(name string) {
		events++
		s.happen(fmt.Sprint(name, "-", events))
		g.Eventually(func() int64 { return delivered("shop")() + delivered("other")() }).Should(BeEquivalentTo(events))
	}
	happen("unlabelled")

	setLabel(`"shop"`)
	g.Eventually(func() []eventsv1.Event { // until the operator has read the label
		happen("before-its-receiver")
		return s.EventsOn(t.Context(), a, v1alpha1.ReasonNoReceiver)
	}).ShouldNot(BeEmpty())
	s.ExpectWarning(t, a, v1alpha1.ReasonNoReceiver, "clusteralarm-controller")
	g.Expect(delivered("other")()).To(BeEquivalentTo(events))

	s.create("ClusterAlarmReceiver", label+"-shop", "log: {}\nchosenBy: {namespaceLabel: "+label+", values: [shop]}")
	s.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: label + "-shop"}})
	g.Eventually(func() int64 { // until the alarm has the receiver
		happen("of-shop")
		return delivered("shop")()
	}).Should(BeNumerically(">", 0))

	s.create("ClusterAlarmReceiver", label+"-broken", "slack: {webhookURLSecretRef: {namespace: "+s.namespace+", name: missing}}\nchosenBy: {namespaceLabel: "+label+", values: [bank]}")
	s.ExpectNotReady(t, a, v1alpha1.ReasonReceiverNotReady)
	s.patch(&v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: label + "-broken"}}, `{"spec":{"chosenBy":null}}`)
	s.ExpectReady(t, a)
}
