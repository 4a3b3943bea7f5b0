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
	for _, name := range exceededOf(asked, used, limited) {
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

// What the names of a quota's resources that count objects begin or end with.
const (
	countPrefix  = "count/"
	ofClassLimit = ".storageclass.storage.k8s.io/persistentvolumeclaims"
)

// counts are the other resources that count objects.
var counts = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceServices, corev1.ResourceServicesLoadBalancers, corev1.ResourceServicesNodePorts,
	corev1.ResourceReplicationControllers, corev1.ResourceQuotas, corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
}

// isCount reports whether a quota's resource counts objects. An object cannot request less of it.
func isCount(name corev1.ResourceName) bool {
	return slices.Contains(counts, name) || strings.HasPrefix(string(name), countPrefix) || strings.HasSuffix(string(name), ofClassLimit)
}

// quotaAdvice says how to use less of the resources of a quota.
func quotaAdvice(exceeded []corev1.ResourceName) string {
	i := slices.IndexFunc(exceeded, isCount)
	if i < 0 {
		return "request less, or remove something else"
	}
	resourceName := strings.TrimPrefix(string(exceeded[i]), countPrefix)
	unused := resourceName + " that you do not need"
	switch class, ofClass := strings.CutSuffix(resourceName, ofClassLimit); {
	case ofClass:
		unused = "claims of storage class " + quote(line(class, maxName)) + " that you do not need"
	case resourceName == string(corev1.ResourcePods): // its controller creates a deleted pod again
		unused = "or scale down a workload"
	case resourceName == string(corev1.ResourceServicesLoadBalancers):
		unused = "Services of type LoadBalancer that you do not need"
	case resourceName == string(corev1.ResourceServicesNodePorts):
		unused = "Services with node ports that you do not need"
	}
	return "delete " + unused + ", or ask for a larger quota"
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
