package diagnosis

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestADeploymentSurgesWhileOldPodsAreLeft(t *testing.T) {
	surge := func(s intstr.IntOrString) *appsv1.RollingUpdateDeployment {
		return &appsv1.RollingUpdateDeployment{MaxSurge: &s}
	}
	for name, tc := range map[string]struct {
		strategy      appsv1.DeploymentStrategy
		updated, pods int32
		want          string
	}{
		"the default strategy":   {appsv1.DeploymentStrategy{}, 1, 2, "web"},
		"a surge of 25%":         {appsv1.DeploymentStrategy{RollingUpdate: surge(intstr.FromString("25%"))}, 1, 2, "web"},
		"no surge":               {appsv1.DeploymentStrategy{RollingUpdate: surge(intstr.FromInt32(0))}, 1, 2, ""},
		"a surge of 0%":          {appsv1.DeploymentStrategy{RollingUpdate: surge(intstr.FromString("0%"))}, 1, 2, ""},
		"Recreate":               {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, 1, 2, ""},
		"only pods of this spec": {appsv1.DeploymentStrategy{}, 2, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: tc.strategy}}
			d.Name, d.Status.UpdatedReplicas, d.Status.Replicas = "web", tc.updated, tc.pods
			if got := SurgingDeployment(d); got != tc.want {
				t.Errorf("SurgingDeployment() = %q, want %q", got, tc.want)
			}
		})
	}
}
