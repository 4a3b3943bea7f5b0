package eventstream

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Epoch is when the Events of Event begin.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// First is the position of Event(0).
const First = 1000

// fields is what the API server notes of the fields that a kubelet sets.
const fields = `{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:reportingInstance":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`

var reasons = [...]string{"Scheduled", "Pulled", "Created", "Started", "Killing", "BackOff", "Unhealthy", "FailedMount"}

// Event returns the n-th of a series of Events such as kubelets send, each of
// another pod; its position is First+n.
func Event(n int) *eventsv1.Event {
	at := metav1.NewTime(Epoch.Add(time.Duration(n) * 10 * time.Millisecond).Truncate(time.Second))
	pod := fmt.Sprintf("web-%05d-7d4b9c6f5d-x2x8q", n)
	namespace := "team-" + strconv.Itoa(n%100)
	host := "node-" + strconv.Itoa(n%50)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              fmt.Sprintf("%s.%016x", pod, n),
			UID:               UID(n),
			ResourceVersion:   strconv.Itoa(First + n),
			CreationTimestamp: at,
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
				Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
			}},
		},
		Type:                corev1.EventTypeNormal,
		Reason:              reasons[n%len(reasons)],
		Note:                fmt.Sprintf("Back-off restarting failed container web in pod %s_%s(%s)", pod, namespace, UID(n)),
		ReportingController: "kubelet",
		ReportingInstance:   host,
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod, UID: UID(n + 1<<20),
			ResourceVersion: strconv.Itoa(First + n - 1), FieldPath: "spec.containers{web}",
		},
		DeprecatedSource:         corev1.EventSource{Component: "kubelet", Host: host},
		DeprecatedFirstTimestamp: at,
		DeprecatedLastTimestamp:  at,
		DeprecatedCount:          1,
	}
}

// UID returns the n-th UID.
func UID(n int) types.UID {
	return types.UID(fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", n))
}

// Added encodes the first n Events as a watch brings them.
func Added(n int) []byte {
	var out bytes.Buffer
	for i := range n {
		out.Write(Frame(watch.Added, Event(i)))
	}
	return out.Bytes()
}
