package explain

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// processedBy returns the workloads that lack pods and that, by their names, process an object. It is for those that no
// controller has given a status for some time.
func (q *inquiry) processedBy(u *unstructured.Unstructured) []reference {
	if q.clock.Now().Sub(u.GetCreationTimestamp().Time) < processedAfter {
		return nil
	}
	return q.failingWorkloads(", which should process it,", func(o client.Object, _ *corev1.PodSpec) bool {
		return processes(o.GetName(), u.GetKind(), u.GroupVersionKind().Group)
	})
}

// finalizing returns the workloads that lack pods and that, by their names, should remove a finalizer of an object.
func (q *inquiry) finalizing(u *unstructured.Unstructured) []reference {
	return q.failingWorkloads(", which should remove its finalizer,", func(o client.Object, _ *corev1.PodSpec) bool {
		return processes(o.GetName(), u.GetKind(), u.GroupVersionKind().Group) || slices.ContainsFunc(u.GetFinalizers(), func(f string) bool {
			domain, _, _ := strings.Cut(f, "/")
			return processes(o.GetName(), u.GetKind(), domain)
		})
	})
}

// controllerName matches the usual names of controllers.
var controllerName = regexp.MustCompile(`operator|controller|manager`)

// processes reports whether a workload has the usual name of the controller of a type. It has the type in it, as
// sealed-secrets-controller, or a part of its group, as strimzi-cluster-operator.
func processes(workload, kind, group string) bool {
	const shortest = 5 // letters of a part that is not just any word
	if !controllerName.MatchString(workload) {
		return false
	}
	words := wordsOf(kind)
	if strings.Contains(workload, strings.Join(words, "-")) || strings.Contains(workload, strings.Join(words, "")) {
		return true
	}
	parts := strings.Split(group, ".")
	return slices.ContainsFunc(parts[:len(parts)-1], func(part string) bool {
		return len(part) >= shortest && !slices.Contains(anyGroup, part) && strings.Contains(workload, part)
	})
}

// anyGroup are parts of groups that say nothing about their controller.
var anyGroup = []string{"apps", "networking", "storage", "platform", "database", "databases", "services", "security", "config", "operator", "controller", "cluster", "example", "internal"}
