package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// mergedPath matches the path of a container or volume in the pod template of a child, and
// the field after it. In the list of the child, an entry has another index than in the
// template of its owner.
var mergedPath = regexp.MustCompile(`spec\.template\.spec\.(initContainers|containers|volumes)\[(\d{1,4})\](?:\.(image|resources)\b)?`)

// UserPaths replaces the paths of a child's pod template in a text by the paths in the spec
// of its owner. An entry that the owner's template does not contain is named instead.
func UserPaths(owner metav1.Object, pod *corev1.PodTemplateSpec, text string) string {
	spec := userSpecOf(owner)
	return mergedPath.ReplaceAllStringFunc(text, func(path string) string {
		m := mergedPath.FindStringSubmatch(path)
		list, field := m[1], m[3]
		index, err := strconv.Atoi(m[2])
		names := namesIn(&pod.Spec, list)
		if err != nil || index >= len(names) {
			return path
		}
		name := names[index]
		if list == "containers" && name == spec.main && slices.Contains(spec.fields, field) {
			return "spec." + field
		}
		at := strings.TrimSuffix(strings.TrimSuffix(path, "."+field), "["+m[2]+"]")
		if field != "" {
			field = "." + field
		}
		if i := slices.Index(namesIn(&spec.template, list), name); i >= 0 {
			return fmt.Sprintf("%s[%d]%s", at, i, field)
		}
		return fmt.Sprintf("%s[%s]%s", at, name, field)
	})
}

// userSpec is what an owner asks for.
type userSpec struct {
	template corev1.PodSpec
	// main is the name of the container that the spec describes.
	main string
	// fields of the main container that are set outside of the template.
	fields []string
}

func userSpecOf(owner metav1.Object) userSpec {
	var (
		spec      userSpec
		template  *corev1.PodTemplateSpec
		image     string
		resources corev1.ResourceRequirements
	)
	switch o := owner.(type) {
	case *v1alpha1.Jupyter:
		spec.main, template, image, resources = v1alpha1.NotebookContainer, o.Spec.Template, o.Spec.Image, o.Spec.Resources
	case *v1alpha1.AppService:
		spec.main, template, image, resources = v1alpha1.AppContainer, o.Spec.Template, o.Spec.Image, o.Spec.Resources
	}
	if template != nil {
		spec.template = template.Spec
	}
	if image != "" {
		spec.fields = append(spec.fields, "image")
	}
	if len(resources.Limits)+len(resources.Requests)+len(resources.Claims) > 0 {
		spec.fields = append(spec.fields, "resources")
	}
	return spec
}

// namesIn returns the names of the entries of a list.
func namesIn(spec *corev1.PodSpec, list string) []string {
	var names []string
	switch list {
	case "volumes":
		for i := range spec.Volumes {
			names = append(names, spec.Volumes[i].Name)
		}
	case "initContainers":
		for i := range spec.InitContainers {
			names = append(names, spec.InitContainers[i].Name)
		}
	default:
		for i := range spec.Containers {
			names = append(names, spec.Containers[i].Name)
		}
	}
	return names
}
