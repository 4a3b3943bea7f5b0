package appservice

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// The pods of an app with a claim are replaced without a surge, so that all of them may be unavailable.
func TestAnAppWithoutAReadyPodIsNotAvailable(t *testing.T) {
	for name, tc := range map[string]struct {
		size, available int32
		want            bool
	}{
		"no pod is available": {1, 0, false},
		"one is":              {1, 1, true},
		"one of several is":   {3, 1, true},
		"none is wanted":      {0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(&v1alpha1.AppService{Spec: v1alpha1.AppServiceSpec{Size: tc.size}})
			a.deployment.Status.AvailableReplicas = tc.available
			a.deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
			if got := a.isAvailable(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
