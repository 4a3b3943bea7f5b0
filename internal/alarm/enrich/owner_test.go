package enrich

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestTheOwnerIsTheWorkloadThatUsersKnow(t *testing.T) {
	yes := true
	owned := func(kind, name string, labels map[string]string) *corev1.Pod {
		owner := metav1.OwnerReference{Kind: kind, Name: name, Controller: &yes}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}}}
	}
	noController := owned("Deployment", "web", nil)
	noController.OwnerReferences[0].Controller = nil
	hash := map[string]string{"pod-template-hash": "5d9c"}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want alarm.Owner
	}{
		"a pod of a Deployment":               {owned("ReplicaSet", "web-5d9c", hash), alarm.Owner{Kind: "Deployment", Name: "web"}},
		"a pod of a ReplicaSet":               {owned("ReplicaSet", "web", nil), alarm.Owner{Kind: "ReplicaSet", Name: "web"}},
		"a ReplicaSet with a label of others": {owned("ReplicaSet", "web", hash), alarm.Owner{Kind: "ReplicaSet", Name: "web"}},
		"a pod of a StatefulSet":              {owned("StatefulSet", "db", hash), alarm.Owner{Kind: "StatefulSet", Name: "db"}},
		"a static pod":                        {owned("Node", "node-0", nil), alarm.Owner{}},
		"an owner that is no controller":      {noController, alarm.Owner{}},
		"a name that no object can have":      {owned("StatefulSet", strings.Repeat("x", 1<<20), nil), alarm.Owner{}},
		"a kind that no object can have":      {owned(strings.Repeat("x", 1<<20), "db", nil), alarm.Owner{}},
		"no owner":                            {&corev1.Pod{}, alarm.Owner{}},
	} {
		if got := ownerOf(tc.pod); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
