package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/headlines"
)

// The states of pods are those that other kinds share.
func TestTheOwnerOfAnAppReadsWhyItsPodDoesNotRun(t *testing.T) {
	for name, row := range headlines.Rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create("size: 1\ntemplate: {metadata: {annotations: {bongsu.io/simulate: none}}, spec: {" + row.PodSpecOf(v1alpha1.AppContainer) + "}}")
			a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
			touches := int32(0)
			row.Check(t, headlines.Subject{
				Cluster: s.Cluster, Object: a, Controller: "appservice-controller", Container: v1alpha1.AppContainer,
				Pod: s.runnablePod, Describe: s.describer(),
				Touch: func() {
					touches++
					s.change(func(a *v1alpha1.AppService) {
						a.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt32(touches))}
					})
				},
			})
		})
	}
}

// runnablePod waits until the app has one pod that has not ended, with a node.
func (s *scene) runnablePod() *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.g.Eventually(func() bool {
		pod = nil
		for _, p := range s.pods("web") {
			if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed {
				pod = p
			}
		}
		return pod != nil
	}).WithTimeout(patience).Should(BeTrue())
	return pod
}
