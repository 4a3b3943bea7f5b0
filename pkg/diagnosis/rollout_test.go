package diagnosis

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

func TestAStatefulSetDoesNotReplaceAPodThatIsNotReady(t *testing.T) {
	pod := func(name, revision string, changes ...change) *corev1.Pod {
		p := newPod(append(changes, named(name, ""))...)
		p.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}
		return p
	}
	both := []*corev1.Pod{pod("db-10", "old"), pod("db-9", "old"), pod("db-0", "old", ready)}
	for name, tc := range map[string]struct {
		pods   []*corev1.Pod
		change func(*appsv1.StatefulSet)
		want   string
	}{
		"the first that is not ready": {pods: both, want: "db-9"},
		"it has the new template":     {pods: []*corev1.Pod{pod("db-1", "old"), pod("db-0", "new")}},
		"it is being deleted":         {pods: []*corev1.Pod{pod("db-0", "old", deleted)}},
		"all are ready":               {pods: []*corev1.Pod{pod("db-0", "old", ready)}},
		"the update is not observed":  {pods: both, change: func(s *appsv1.StatefulSet) { s.Generation = 3 }},
		"pods are replaced in parallel": {pods: both, change: func(s *appsv1.StatefulSet) {
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		}},
		"users delete the pods": {pods: both, change: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}},
		"the partition leaves it out": {pods: both, change: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(10))}
		}},
		"the partition counts from the first": {pods: both, want: "db-9", change: func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(4))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &appsv1.StatefulSet{}
			s.Generation, s.Status.ObservedGeneration, s.Status.UpdateRevision = 2, 2, "new"
			if tc.change != nil {
				tc.change(s)
			}
			if got := OutdatedPod(s, tc.pods); got != tc.want {
				t.Errorf("OutdatedPod() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheCauseInAnOutdatedPodAdvisesToDeleteIt(t *testing.T) {
	const remove = "delete the pod (kubectl delete pod -n shop nb-0): it has a former template, and its StatefulSet replaces it only once it is ready"
	w := Workload{Pods: waits("ErrImagePull", textNotFound), Outdated: "nb-0"}
	if c := Diagnose(w).Cause; c == nil || c.Reason != ReasonErrImagePull || c.Advice != remove {
		t.Errorf("cause %+v, want the advice %q", c, remove)
	}
	w.Pods = pods(newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50)))
	w.NodeStates = map[string]NodeState{"node-a": {Lost: true, Since: at(40)}}
	if c := Diagnose(w).Cause; c == nil || c.Reason != ReasonNodeLost || c.Advice == remove {
		t.Errorf("cause %+v, want the advice about the node", c)
	}
}
