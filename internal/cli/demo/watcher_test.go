package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func clusterAlarm(name string, delivered int64, ready metav1.ConditionStatus) *v1alpha1.ClusterAlarm {
	return &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.AlarmStatus{
		Delivered:  delivered,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}},
	}}
}

func watching(t *testing.T, objects ...client.Object) (watcher, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return watcher{client: c, timeout: time.Millisecond}, c
}

func TestOnlyDeliveriesAfterTheStartCount(t *testing.T) {
	w, c := watching(t, clusterAlarm("old", 3, "True"), clusterAlarm("again", 3, "True"), clusterAlarm("new", 0, "True"))
	if err := w.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, delivered := range map[string]int64{"again": 4, "new": 1} {
		var a v1alpha1.ClusterAlarm
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &a); err != nil {
			t.Fatal(err)
		}
		a.Status.Delivered = delivered
		if err := c.Update(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
	}
	missing, err := w.await(t.Context(), []string{"old", "again", "new", "absent"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"old", "absent"}, missing); diff != "" {
		t.Error(diff)
	}
}

func TestAlarmsThatAreNotReadyAreNamed(t *testing.T) {
	w, _ := watching(t, clusterAlarm("b", 0, "False"), clusterAlarm("well", 0, "True"), clusterAlarm("a", 0, "Unknown"))
	err := w.awaitReady(t.Context())
	if err == nil || err.Error() != "alarms not Ready within 1ms: a, b" {
		t.Errorf("got %v, want both named", err)
	}
}

func TestReceiversThatAreNotReadyAreNamedWithTheirCondition(t *testing.T) {
	receiver := func(name string, conditions ...metav1.Condition) *v1alpha1.ClusterAlarmReceiver {
		return &v1alpha1.ClusterAlarmReceiver{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.AlarmStatus{Conditions: conditions},
		}
	}
	ready := func(status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Message: message}
	}
	w, _ := watching(t, receiver("well", ready("True", "in force")), receiver("refused", ready("False", "answered 403")),
		receiver("new"), receiver("of-others", ready("False", "not the demo's")))
	failing, err := w.awaitReceivers(t.Context(), []string{"well", "refused", "new"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ClusterAlarmReceiver refused: answered 403", "ClusterAlarmReceiver new: the operator has not processed it yet"}
	if diff := cmp.Diff(want, failing); diff != "" {
		t.Error(diff)
	}
}
