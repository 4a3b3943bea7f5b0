package feature

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Argument returns the value of an argument with this prefix, such as "--controllers=", of the
// operator's container in a pod.
func Argument(pod *corev1.PodSpec, prefix string) (value string, found bool) {
	for _, container := range pod.Containers {
		for _, arg := range container.Args {
			if value, found := strings.CutPrefix(arg, prefix); found {
				return value, true
			}
		}
	}
	return "", false
}

// OfPod returns the features of the operator in a pod.
func OfPod(pod *corev1.PodSpec) ([]Feature, error) {
	if names, found := Argument(pod, "--controllers="); found {
		return Parse(strings.Split(names, ","))
	}
	return Default(), nil
}
