package diagnosis_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func ExampleDiagnose() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "app", Image: "example.com/web:1.5"}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason:  "ErrImagePull",
				Message: `failed to resolve reference "example.com/web:1.5": example.com/web:1.5: not found`,
			}},
		}}},
	}
	cause := diagnosis.Diagnose(diagnosis.Workload{Pods: []*corev1.Pod{pod}}).Cause
	fmt.Println(cause.Reason, "of", cause.Object.Kind, cause.Object.Name)
	fmt.Println(cause.Advice)
	// Output:
	// ErrImagePull of Pod web-0
	// check the image name and tag
}
