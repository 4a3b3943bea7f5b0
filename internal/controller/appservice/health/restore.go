package health

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Restore returns the record of a pod of which there is none, by what the status says:
// the operator was restarted, or the pod is new. A pod that the status does not list
// is healthy if it lists all that are not; if there were too many of them, what it
// was cannot be told.
func Restore(status *v1alpha1.AppServiceStatus, pod string, uid types.UID) Record {
	if e := listed(status, pod); e != nil {
		return restoreListed(e, uid)
	}
	if _, known := slices.BinarySearch(status.Nodes, pod); known && status.Healthy > 0 && !truncated(status) {
		return Record{Health: Healthy}
	}
	return unchecked()
}

func restoreListed(e *v1alpha1.PodStatus, uid types.UID) Record {
	if e.PodUID != string(uid) {
		return unchecked()
	}
	r := Record{
		Health: e.Health, Reason: e.Reason, Message: e.Message, Since: e.LastTransitionTime.Time,
		kind: e.Reason, run: e.ConsecutiveFailures,
	}
	if e.Health == v1alpha1.PodHealthUnknown {
		r.misses = e.ConsecutiveFailures
		return r
	}
	r.failures, r.failing = e.ConsecutiveFailures, e.LastTransitionTime.Time
	return r
}

// truncated says whether pods that are not healthy are missing in the list.
func truncated(status *v1alpha1.AppServiceStatus) bool {
	return int(status.Unhealthy+status.Unknown) > len(status.PodStatuses)
}

// listed returns what the status says of a pod; nil if nothing.
func listed(status *v1alpha1.AppServiceStatus, pod string) *v1alpha1.PodStatus {
	i, found := slices.BinarySearchFunc(status.PodStatuses, pod, func(e v1alpha1.PodStatus, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !found {
		return nil
	}
	return &status.PodStatuses[i]
}
