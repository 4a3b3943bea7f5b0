package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuotaUsers is how many pods a message about an exceeded quota names.
const maxQuotaUsers = 3

// quotaUsers names the pods that use most of the first resource that does not fit. It is
// empty if the pods are unknown, or use none of it.
func (v *view) quotaUsers(asked, used, limited corev1.ResourceList) string {
	type user struct {
		name   string
		amount resource.Quantity
	}
	for _, name := range sortedNames(asked) {
		if fitsQuota(corev1.ResourceList{name: asked[name]}, used, limited) {
			continue
		}
		var users []user
		for _, p := range v.NamespacePods {
			if amount := quotaUse(p, name); !amount.IsZero() {
				users = append(users, user{p.Name, amount})
			}
		}
		slices.SortFunc(users, func(a, b user) int {
			return cmp.Or(b.amount.Cmp(a.amount), strings.Compare(a.name, b.name))
		})
		var named []string
		for _, u := range users[:min(len(users), maxQuotaUsers)] {
			named = append(named, fmt.Sprintf("%s (%s)", line(u.name, maxName), u.amount.String()))
		}
		if len(named) > 0 {
			return strings.Join(named, ", ")
		}
	}
	return ""
}

// quotaUse returns how much of a quota's resource a pod uses, like PodRequests and
// PodLimits of k8s.io/component-helpers/resource. Pods that have ended use nothing. Numbers
// of objects are no resources of containers.
func quotaUse(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return resource.Quantity{}
	}
	key, isLimit := strings.CutPrefix(string(name), "limits.")
	resourceName := corev1.ResourceName(strings.TrimPrefix(key, "requests."))
	listOf := func(r *corev1.ResourceRequirements) corev1.ResourceList {
		if isLimit {
			return r.Limits
		}
		return r.Requests
	}
	sum := containersUse(p, func(c *corev1.Container) resource.Quantity { return listOf(&c.Resources)[resourceName] })
	if p.Spec.Resources != nil {
		if amount, ok := listOf(p.Spec.Resources)[resourceName]; ok {
			sum = amount.DeepCopy()
		}
	}
	if !isLimit || !sum.IsZero() {
		sum.Add(p.Spec.Overhead[resourceName])
	}
	return sum
}

// containersUse returns what the containers of a pod use at most at one time. Each init
// container runs beside the sidecars before it.
func containersUse(p *corev1.Pod, amountOf func(*corev1.Container) resource.Quantity) resource.Quantity {
	var sum, sidecars, most resource.Quantity
	for i := range p.Spec.Containers {
		sum.Add(amountOf(&p.Spec.Containers[i]))
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		amount := sidecars.DeepCopy()
		amount.Add(amountOf(c))
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = amount.DeepCopy()
		}
		if amount.Cmp(most) > 0 {
			most = amount
		}
	}
	sum.Add(sidecars)
	if most.Cmp(sum) > 0 {
		return most
	}
	return sum
}
