package jupyter

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func podOf(set *appsv1.StatefulSet, uid types.UID, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "nb-0", UID: uid, Labels: map[string]string{v1alpha1.LabelJupyter: "nb"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Status: corev1.PodStatus{Phase: phase, Reason: "Evicted"},
	}
}

func TestACauseThatDescribesTheEndedPodIsNotReportedTwice(t *testing.T) {
	set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "set"}}
	ended, next := podOf(&set, "1", corev1.PodFailed), podOf(&set, "2", corev1.PodPending)
	ofPod := &diagnosis.Cause{Object: diagnosis.Object{Kind: "Pod", Name: "nb-0"}}
	ofSet := &diagnosis.Cause{Object: diagnosis.Object{Kind: "StatefulSet", Name: "nb"}}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		cause *diagnosis.Cause
		want  int
	}{
		"it is the pod, with a cause":       {pod: ended, cause: ofPod},
		"it is the pod, which is deleted":   {pod: ended, want: 1},
		"its Events are the cause":          {cause: ofPod},
		"no other pod can be created":       {cause: ofSet, want: 1},
		"the next pod starts":               {pod: next, want: 1},
		"the next pod has its own problems": {pod: next, cause: ofPod, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNotebook(&v1alpha1.Jupyter{})
			n.pod, n.ended, n.findings.Cause = tc.pod, ended, tc.cause
			if got := len(n.formerPods()); got != tc.want {
				t.Errorf("%d former pods, want %d", got, tc.want)
			}
		})
	}
}
