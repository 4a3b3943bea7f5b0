package explain

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// kueueWorkload is what Kueue creates for a Job, a pod or another object that it admits.
var kueueWorkload = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}

// The queues of Kueue, and what they ask before they admit a Workload: kueue/apis/kueue/v1beta1.
var (
	localQueue     = schema.GroupKind{Group: kueueWorkload.Group, Kind: "LocalQueue"}
	clusterQueue   = schema.GroupKind{Group: kueueWorkload.Group, Kind: "ClusterQueue"}
	admissionCheck = schema.GroupKind{Group: kueueWorkload.Group, Kind: "AdmissionCheck"}
)

// queue returns the queue of a Workload, or the ClusterQueue of a LocalQueue.
func (q *inquiry) queue() []reference {
	u := q.custom()
	if u.GetKind() == localQueue.Kind {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "clusterQueue")
		return []reference{newReference(clusterQueue, "", name, ", to which it belongs,")}
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "queueName")
	return []reference{newReference(localQueue, u.GetNamespace(), name, ", in which it waits,")}
}

// kueueQueue explains a queue or a check that admits nothing: its condition Active is False.
func (q *inquiry) kueueQueue(u *unstructured.Unstructured) {
	q.set(u.GetKind(), Running, "it is active")
	if active := meta.FindStatusCondition(q.explanation.Conditions, "Active"); active != nil && active.Status == metav1.ConditionFalse {
		q.set(u.GetKind(), Waiting, "it is not active")
		q.workload.Known = append(q.workload.Known, fromCondition(diagnosis.Object{Kind: u.GetKind(), Name: u.GetName()}, *active))
	}
}

// kueueWorkload explains a Workload of Kueue by its conditions, whose reasons are those of
// kueue/apis/kueue/v1beta1/workload_types.go. A Workload that waits for quota is no problem.
func (q *inquiry) kueueWorkload(u *unstructured.Unstructured) {
	conditions := q.explanation.Conditions
	reserved := meta.FindStatusCondition(conditions, "QuotaReserved")
	active, found, _ := unstructured.NestedBool(u.Object, "spec", "active")
	switch {
	case meta.IsStatusConditionTrue(conditions, "Finished"):
		q.set(kueueWorkload.Kind, Completed, "it has finished")
	case found && !active:
		q.set(kueueWorkload.Kind, Stopped, "it is not active; set spec.active to true to queue it again")
	case meta.IsStatusConditionTrue(conditions, "Admitted"):
		q.set(kueueWorkload.Kind, Running, "Kueue has admitted it")
	case reserved != nil && reserved.Status == metav1.ConditionFalse && reserved.Reason == "Inadmissible":
		q.set(kueueWorkload.Kind, Waiting, "Kueue cannot admit it")
		cause := fromCondition(diagnosis.Object{Kind: kueueWorkload.Kind, Name: u.GetName()}, *reserved)
		cause.Message, cause.Transient = "Kueue cannot admit it: "+cmp.Or(reserved.Message, "it gives no message"), false
		cause.Advice = "ask the cluster's administrator to check the queues of Kueue"
		if strings.HasPrefix(reserved.Message, "LocalQueue ") {
			cause.Advice = "create the LocalQueue, or correct the label " + diagnosis.QueueLabel
		}
		q.workload.Known = append(q.workload.Known, cause)
	case reserved != nil && strings.Contains(reserved.Message, "> maximum capacity"):
		q.set(kueueWorkload.Kind, Waiting, "it requests more than its queue can ever have")
		cause := fromCondition(diagnosis.Object{Kind: kueueWorkload.Kind, Name: u.GetName()}, *reserved)
		queue, _, _ := unstructured.NestedString(u.Object, "spec", "queueName")
		cause.Message, cause.Transient = fmt.Sprintf("it requests more than its queue %q can ever have: %s", queue, reserved.Message), false
		cause.Advice = "request less, or ask the cluster's administrator for a larger quota of the ClusterQueue"
		q.workload.Known = append(q.workload.Known, cause)
	case reserved != nil && reserved.Message != "":
		q.set(kueueWorkload.Kind, Waiting, "it waits for quota: "+reserved.Message)
	default:
		q.set(kueueWorkload.Kind, Waiting, "it waits in queue")
	}
}
