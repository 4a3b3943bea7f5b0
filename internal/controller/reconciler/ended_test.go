package reconciler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAPodThatWasEndedIsKeptUntilTheStatusContainsIt(t *testing.T) {
	name := types.NamespacedName{Namespace: "team", Name: "nb"}
	podOf := func(phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Labels: map[string]string{"of": "nb"}}, Status: corev1.PodStatus{Phase: phase}}
	}
	first, second, foreign := podOf(corev1.PodFailed), podOf(corev1.PodFailed), podOf(corev1.PodFailed)
	e := NewEndedPods("of")
	expect := func(when string, want *corev1.Pod) {
		t.Helper()
		if got := e.Of(name, func(pod *corev1.Pod) bool { return pod != foreign }); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	e.keep(podOf(corev1.PodRunning))
	expect("a running pod", nil)
	e.keep(first)
	expect("the first", first)
	e.keep(second)
	e.Reported(name, first)
	expect("the first was reported after the second ended", second)
	e.Reported(name, second)
	expect("both were reported", nil)
	e.keep(foreign)
	expect("a pod of another controller", nil)
	e.Forget(name)
	if len(e.pods) > 0 {
		t.Errorf("kept: %v", e.pods)
	}
}
