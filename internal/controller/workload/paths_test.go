package workload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

func TestUserPaths(t *testing.T) {
	memory := corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "prepare"}},
		Containers:     []corev1.Container{{Name: "side"}},
		Volumes:        []corev1.Volume{{Name: "data"}},
	}}
	merged := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "other"}, {Name: "prepare"}},
		Containers:     []corev1.Container{{Name: "notebook"}, {Name: "side"}},
		Volumes:        []corev1.Volume{{Name: "home"}, {Name: "data"}},
	}}
	app := merged.DeepCopy()
	app.Spec.Containers[0].Name = "app"
	plain := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Name: "nb"}, Spec: v1alpha1.JupyterSpec{Template: template}}
	full := plain.DeepCopy()
	full.Spec.Image, full.Spec.Resources = "a:1", memory
	for name, tc := range map[string]struct {
		owner      metav1.Object
		pod        *corev1.PodTemplateSpec
		text, want string
	}{
		"a sidecar":              {plain, merged, "spec.template.spec.containers[1].image: Required value", "spec.template.spec.containers[0].image: Required value"},
		"an init container":      {plain, merged, "spec.template.spec.initContainers[1].env[0].name: x", "spec.template.spec.initContainers[0].env[0].name: x"},
		"a volume":               {plain, merged, "spec.template.spec.volumes[1].configMap.name: x", "spec.template.spec.volumes[0].configMap.name: x"},
		"the operator's volume":  {plain, merged, "spec.template.spec.volumes[0].name: x", "spec.template.spec.volumes[home].name: x"},
		"the server's resources": {full, merged, "spec.template.spec.containers[0].resources.requests: x", "spec.resources.requests: x"},
		"the server's image":     {full, merged, "spec.template.spec.containers[0].image: x", "spec.image: x"},
		"the default image":      {plain, merged, "spec.template.spec.containers[0].image: x", "spec.template.spec.containers[notebook].image: x"},
		"an imagePullPolicy":     {full, merged, "spec.template.spec.containers[0].imagePullPolicy: x", "spec.template.spec.containers[notebook].imagePullPolicy: x"},
		"several": {
			plain, merged, "spec.template.spec.containers[1].image: a; spec.template.spec.volumes[1]: b",
			"spec.template.spec.containers[0].image: a; spec.template.spec.volumes[0]: b",
		},
		"an index that does not exist": {plain, merged, "spec.template.spec.containers[7].image: x", "spec.template.spec.containers[7].image: x"},
		"another path":                 {plain, merged, "spec.replicas: x", "spec.replicas: x"},
		"no template":                  {&v1alpha1.Jupyter{}, merged, "spec.template.spec.containers[1].image: x", "spec.template.spec.containers[side].image: x"},
		"an app":                       {&v1alpha1.AppService{Spec: v1alpha1.AppServiceSpec{Image: "a", Template: template}}, app, "spec.template.spec.containers[0].image: x", "spec.image: x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := workload.UserPaths(tc.owner, tc.pod, tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
