package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// ExceededQuota is what the API server says about an exceeded quota. Used is without what was requested.
type ExceededQuota struct {
	Name                     string
	Requested, Used, Limited corev1.ResourceList
	// HeldBy is the Deployment whose old pods use a part of the quota, and that ends none of them before
	// a new one is ready. It is empty if there is none.
	HeldBy string
}

// describeQuota describes the exceeded quota. isPresent means that the amounts are those of now, and
// not those of the failed attempt.
func (c *Cause) describeQuota(what string, isPresent bool) {
	q := c.Quota
	c.Reason, c.Transient = ReasonQuotaExceeded, true
	c.Advice = quotaAdvice(exceededOf(q.Requested, q.Used, q.Limited))
	c.Message = what + isExceeded + quote(q.Name) + " is exceeded: " + line(usageText(q.Requested, q.Used, q.Limited), maxQuoted)
	switch {
	case isPresent && fitsQuota(q.Requested, q.Used, q.Limited):
		c.Advice = "it has room now; the next attempt follows within 17 minutes"
	case !q.canFit():
		c.Advice, c.Transient = "the request exceeds the whole quota; ask for a larger quota", false
		if !slices.ContainsFunc(exceededOf(q.Requested, nil, q.Limited), isCount) {
			c.Advice = "the request exceeds the whole quota; request less, or ask for a larger quota"
		}
	case q.HeldBy != "":
		c.Message += "; old pods of Deployment " + quote(line(q.HeldBy, maxName)) + " use a part of it, and its rollout ends none before a new pod is ready (maxUnavailable is 0)"
		c.Advice, c.Transient = letOldPodEnd+", or ask for a larger quota", false
	}
}

// isExceeded is what separates the object from the quota in a message.
const isExceeded = ": ResourceQuota "

// canFit reports whether the request fits an unused quota.
func (q *ExceededQuota) canFit() bool { return fitsQuota(q.Requested, nil, q.Limited) }

// completeQuota adds the present usage of the quota, and the pods or claims that use most of it.
func (c *Cause) completeQuota(l Lookup) {
	quotas, err := l.Quotas()
	i := slices.IndexFunc(quotas, func(q corev1.ResourceQuota) bool { return q.Name == c.Quota.Name })
	if err != nil || i < 0 {
		return
	}
	now := &ExceededQuota{c.Quota.Name, c.Quota.Requested, quotas[i].Status.Used, quotas[i].Status.Hard, c.Quota.HeldBy}
	what, _, _ := strings.Cut(c.Message, isExceeded)
	c.Quota = now
	c.describeQuota(what, true)
	exceeded := slices.DeleteFunc(exceededOf(now.Requested, now.Used, now.Limited), isCount)
	if len(exceeded) == 0 || !now.canFit() {
		return
	}
	kind, users := "pods", podUsers(l, &quotas[i])
	if strings.HasSuffix(string(exceeded[0]), string(corev1.ResourceRequestsStorage)) {
		kind, users = "claims", claimUsers(l)
	}
	if named := nameUsers(users, exceeded); named != "" {
		c.Message += "; " + kind + " that use most: " + named
	}
}

// quotaUser is an object that uses resources of a quota.
type quotaUser struct {
	name string
	uses func(corev1.ResourceName) resource.Quantity
}

// podUsers returns the pods that a quota counts, if they can be read.
func podUsers(l Lookup, q *corev1.ResourceQuota) []quotaUser {
	pods, err := l.Pods()
	if err != nil {
		return nil
	}
	counts := podsOf(q)
	var users []quotaUser
	for i := range pods {
		if p := &pods[i]; counts(p) {
			users = append(users, quotaUser{p.Name, func(name corev1.ResourceName) resource.Quantity { return quotaUse(p, name) }})
		}
	}
	return users
}

// claimUsers returns the claims of the namespace, if they can be read.
func claimUsers(l Lookup) []quotaUser {
	claims, err := l.Claims()
	if err != nil {
		return nil
	}
	var users []quotaUser
	for i := range claims {
		users = append(users, quotaUser{claims[i].Name, func(name corev1.ResourceName) resource.Quantity { return storageUse(&claims[i], name) }})
	}
	return users
}

// storageUse returns how much of a quota's resource a claim uses. The name of the resource can begin
// with that of a storage class.
func storageUse(c *corev1.PersistentVolumeClaim, name corev1.ResourceName) resource.Quantity {
	switch string(name) {
	case string(corev1.ResourceRequestsStorage), ptr.Deref(c.Spec.StorageClassName, "") + ofClass + string(corev1.ResourceRequestsStorage):
		return c.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	return resource.Quantity{}
}

// maxQuotaUsers is how many pods or claims a message about an exceeded quota names.
const maxQuotaUsers = 3

// nameUsers names those that use most of the first of the resources that any of them uses.
func nameUsers(all []quotaUser, resources []corev1.ResourceName) string {
	type user struct {
		name   string
		amount resource.Quantity
	}
	for _, name := range resources {
		var users []user
		for _, u := range all {
			if amount := u.uses(name); !amount.IsZero() {
				users = append(users, user{u.name, amount})
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

// podsOf returns whether a quota counts a pod. With scopes, it counts some pods only. For a scope that
// is not known here, it counts none, so that no pod is named that is not counted.
func podsOf(q *corev1.ResourceQuota) func(*corev1.Pod) bool {
	selector := metav1.LabelSelector{}
	for _, scope := range q.Spec.Scopes {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: string(scope), Operator: metav1.LabelSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		for _, r := range q.Spec.ScopeSelector.MatchExpressions {
			selector.MatchExpressions = append(selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: string(r.ScopeName), Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
		}
	}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		matches = labels.Nothing()
	}
	return func(p *corev1.Pod) bool { return matches.Matches(scopesOf(p)) }
}

// scopesOf returns the scopes of quotas that a pod is in, with their values
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes).
func scopesOf(p *corev1.Pod) labels.Set {
	scopes := labels.Set{string(corev1.ResourceQuotaScopeNotTerminating): "", string(corev1.ResourceQuotaScopeNotBestEffort): ""}
	if p.Spec.ActiveDeadlineSeconds != nil {
		delete(scopes, string(corev1.ResourceQuotaScopeNotTerminating))
		scopes[string(corev1.ResourceQuotaScopeTerminating)] = ""
	}
	if p.Status.QOSClass == corev1.PodQOSBestEffort {
		delete(scopes, string(corev1.ResourceQuotaScopeNotBestEffort))
		scopes[string(corev1.ResourceQuotaScopeBestEffort)] = ""
	}
	if p.Spec.PriorityClassName != "" {
		scopes[string(corev1.ResourceQuotaScopePriorityClass)] = p.Spec.PriorityClassName
	}
	return scopes
}

// usageText lists the requested, used and limited amounts of each resource.
func usageText(asked, used, limited corev1.ResourceList) string {
	var parts []string
	for _, name := range sortedNames(asked) {
		a, u, l := asked[name], used[name], limited[name]
		parts = append(parts, string(name)+": requested "+a.String()+", used "+u.String()+" of "+l.String())
	}
	return strings.Join(parts, "; ")
}

func fitsQuota(asked, used, limited corev1.ResourceList) bool {
	return len(exceededOf(asked, used, limited)) == 0
}

// exceededOf returns the resources that would exceed their limits, in order.
func exceededOf(asked, used, limited corev1.ResourceList) []corev1.ResourceName {
	return slices.DeleteFunc(sortedNames(asked), func(name corev1.ResourceName) bool {
		limit, limits := limited[name]
		sum := asked[name].DeepCopy()
		sum.Add(used[name])
		return !limits || sum.Cmp(limit) <= 0
	})
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parseAmounts parses the amounts in a quota error, such as cpu=1,pods=2.
func parseAmounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if q, err := resource.ParseQuantity(value); err == nil {
			list[corev1.ResourceName(name)] = q
		}
	}
	return list
}

// What the names of a quota's resources that count objects begin or end with.
const (
	countPrefix  = "count/"
	ofClassLimit = ofClass + "persistentvolumeclaims"
	// ofClass follows the name of a storage class in the name of a resource.
	ofClass = ".storageclass.storage.k8s.io/"
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
	switch class, hasClass := strings.CutSuffix(resourceName, ofClassLimit); {
	case hasClass:
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
