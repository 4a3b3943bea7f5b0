package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestParseKeyReadsTheTextOfAKey(t *testing.T) {
	for _, want := range []Key{{"Alarm", "shop", "web"}, {"ClusterAlarm", "", "nodes"}} {
		got, err := ParseKey(want.String())
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if _, err := ParseKey("Alarm/shop"); err == nil {
		t.Error("an incomplete key was parsed")
	}
}

func TestSpecChangedReportsAnObjectThatWasRecreated(t *testing.T) {
	before := metav1.ObjectMeta{Name: "web", UID: "one", Generation: 1, ResourceVersion: "1"}
	for name, tc := range map[string]struct {
		after metav1.ObjectMeta
		want  bool
	}{
		"only the status": {metav1.ObjectMeta{Name: "web", UID: "one", Generation: 1, ResourceVersion: "2"}, false},
		"the spec":        {metav1.ObjectMeta{Name: "web", UID: "one", Generation: 2, ResourceVersion: "2"}, true},
		"recreated":       {metav1.ObjectMeta{Name: "web", UID: "other", Generation: 1, ResourceVersion: "2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := event.UpdateEvent{ObjectOld: &corev1.Pod{ObjectMeta: before}, ObjectNew: &corev1.Pod{ObjectMeta: tc.after}}
			if got := SpecChanged.Update(e); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
