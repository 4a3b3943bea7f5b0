package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The pod that holds a volume says why it does not end. A text alone does not: users can write Events.
func TestACauseNamesWhyTheHolderOfAVolumeDoesNotEnd(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	mounting := func(name, claim string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
			NodeName: "a", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		}}
	}
	deleted := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
		return p
	}
	lost := map[string]NodeState{"a": {Lost: true, Since: now.Add(-time.Hour)}}
	for name, tc := range map[string]struct {
		holder *corev1.Pod
		nodes  map[string]NodeState
		want   string
	}{
		"its node is lost":      {deleted(mounting("old", "data")), lost, `: pod "old" has a problem: the pod cannot be deleted while node "a" does not respond`},
		"it does not end":       {deleted(mounting("old", "data")), nil, `: pod "old" has a problem: the pod is still being deleted`},
		"it runs":               {mounting("old", "data"), nil, ""},
		"another claim":         {deleted(mounting("old", "other")), lost, ""},
		"of another namespace":  {func() *corev1.Pod { p := deleted(mounting("old", "data")); p.Namespace = "other"; return p }(), lost, ""},
		"the pod of the target": {deleted(mounting("new", "data")), lost, ""},
	} {
		c := &Cause{Message: "it is used", Blames: []Object{{kindPod, "old"}, {"Secret", "x"}}}
		c.Hold([]*corev1.Pod{mounting("new", "data")}, tc.holder, tc.nodes, now)
		if got := strings.TrimPrefix(c.Message, "it is used"); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %s", name, c.Message)
		}
		if names := c.Holders(); len(names) != 1 || names[0] != "old" {
			t.Errorf("holders %v", names)
		}
	}
}
