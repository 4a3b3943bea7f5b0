package events

import (
	"cmp"
	"context"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"

	corev1 "k8s.io/api/core/v1"
)

const (
	// unreadyFor is how long a pod must not have been ready before OfUnready reads its Events. A
	// pod that starts has failing probes for a while, which is no problem.
	unreadyFor = 30 * time.Second
	// maxListed is the number of Events that are read of an object. Authors of Events can create any
	// number.
	maxListed = 100
	// maxUnready limits the requests of OfUnready. The other pods mostly fail for the same reason.
	maxUnready = 5
)

// List reads the Events that regard objects, for the diagnosis. It makes one request for each object,
// and reads at most 100 of its Events.
// live must read from the API server: a cache would keep all Events of the cluster. The operator needs
// list on Events of the group events.k8s.io.
func List(ctx context.Context, live client.Reader, objects ...client.Object) ([]diagnosis.Event, error) {
	var found []diagnosis.Event
	for _, o := range objects {
		list := &eventsv1.EventList{}
		regarding := client.MatchingFields{"regarding.uid": string(o.GetUID())}
		if err := live.List(ctx, list, client.InNamespace(o.GetNamespace()), client.Limit(maxListed), regarding); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, diagnosis.NewEvent(&list.Items[i]))
		}
	}
	return found, nil
}

// OfUnready is List for pods that have not been ready for 30 seconds. It reads the Events of at most
// five of them, and makes no request if there are none. Events contain causes that pods do not show,
// for example a readiness probe that fails.
func OfUnready(ctx context.Context, live client.Reader, pods []*corev1.Pod, now time.Time) ([]diagnosis.Event, error) {
	var unready []client.Object
	for _, pod := range pods {
		if since, ready := readySince(pod); !ready && now.Sub(since) >= unreadyFor {
			unready = append(unready, pod)
		}
	}
	slices.SortFunc(unready, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return List(ctx, live, unready[:min(len(unready), maxUnready)]...)
}

// readySince returns whether a pod is ready, and since when.
func readySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return pod.CreationTimestamp.Time, false
}
