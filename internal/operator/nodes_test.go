package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestAnAlarmReceiverDoesNotReachANodeInAnAllowedRange(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	server, namespace := sink.New(t), c.Namespace(t, nil)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "sink-"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}},
	}
	create := func(o client.Object) {
		g.Expect(c.Client.Create(t.Context(), o)).To(Succeed())
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), o) })
	}
	create(node)
	c.StartOperator(t, func(o *options.Options) { o.AllowedAddresses = []string{"127.0.0.0/8"} })

	create(cluster.Manifest(t, "AlarmReceiver", namespace, "it", "webhook: {url: '"+server.URL()+"'}"))
	create(cluster.Manifest(t, "Alarm", namespace, "all", "match: [{reasons: [BackOff]}]\nreceivers: [{kind: AlarmReceiver, name: it}]"))
	receiver := &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it"}}
	c.ExpectReady(t, receiver)
	c.ExpectReady(t, &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"}})
	create(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: "event-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "web-0"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "BackOff", Count: 1,
	})
	c.ExpectNotReady(t, receiver, v1alpha1.ReasonAddressNotAllowed)
	g.Expect(server.Requests()).To(BeEmpty())

	g.Expect(c.Client.Delete(t.Context(), node)).To(Succeed())
	tries := 0
	g.Eventually(func(g Gomega) { // the operator may still have the Node in its cache
		tries++
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"tried":"%d"}}}`, tries)
		g.Expect(c.Client.Patch(t.Context(), receiver, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		g.Expect(server.Requests()).To(HaveLen(1))
	}).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
	c.ExpectReady(t, receiver)
}
