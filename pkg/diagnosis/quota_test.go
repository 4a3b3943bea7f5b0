package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAQuotaThatCountsObjectsAsksForNoSmallerRequest(t *testing.T) {
	const whole = "the request exceeds the whole quota; "
	for text, want := range map[string]string{
		"requested: pods=1, used: pods=6, limited: pods=2":                                                                                                                                                          "delete or scale down a workload, or ask for a larger quota",
		"requested: count/pods=1, used: count/pods=2, limited: count/pods=2":                                                                                                                                        "delete or scale down a workload, or ask for a larger quota",
		"requested: count/jobs.batch=1, used: count/jobs.batch=4, limited: count/jobs.batch=4":                                                                                                                      "delete jobs.batch that you do not need, or ask for a larger quota",
		"requested: persistentvolumeclaims=1, used: persistentvolumeclaims=4, limited: persistentvolumeclaims=4":                                                                                                    "delete persistentvolumeclaims that you do not need, or ask for a larger quota",
		"requested: services.loadbalancers=1, used: services.loadbalancers=1, limited: services.loadbalancers=1":                                                                                                    "delete Services of type LoadBalancer that you do not need, or ask for a larger quota",
		"requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2":                                                                                                                "delete Services with node ports that you do not need, or ask for a larger quota",
		"requested: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1, used: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1, limited: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1": `delete claims of storage class "gold" that you do not need, or ask for a larger quota`,
		"requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: gold.storageclass.storage.k8s.io/requests.storage=1Gi, limited: gold.storageclass.storage.k8s.io/requests.storage=2Gi":             "request less, or remove something else",
		"requested: pods=1,requests.cpu=2, used: pods=2,requests.cpu=3, limited: pods=2,requests.cpu=4":                                                                                                             "delete or scale down a workload, or ask for a larger quota",
		"requested: pods=1,requests.cpu=2, used: pods=1,requests.cpu=3, limited: pods=2,requests.cpu=4":                                                                                                             "request less, or remove something else",
		"requested: pods=1, used: pods=0, limited: pods=0":                                                                                                                                                          whole + "ask for a larger quota",
		"requested: pods=1,requests.cpu=2, used: pods=0,requests.cpu=0, limited: pods=0,requests.cpu=1":                                                                                                             whole + "ask for a larger quota",
		"requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1":                                                                                                                                  whole + "request less, or ask for a larger quota",
	} {
		cause := FromCreateFailure(Object{"ReplicaSet", "web"}, "exceeded quota: team, "+text)
		if cause.Advice != want {
			t.Errorf("%s:\n%s\nwant %s", text, cause.Advice, want)
		}
	}
}

func TestAnExceededQuotaNamesThePodsThatUseMost(t *testing.T) {
	using := func(name, memory string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		amount := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}, {}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	two := func(p *corev1.Pod) { p.Spec.Containers[1] = p.Spec.Containers[0] }
	requested := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	// starts adds an init container; a sidecar runs on.
	starts := func(memory string, policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: requested(memory)}})
		}
	}
	overhead := func(p *corev1.Pod) { p.Spec.Overhead = requested("512Mi") }
	ofPod := func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: requested("6Gi")} }
	deadline := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }
	ofClass := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.PriorityClassName = name } }
	scoped := func(scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: scopes}
	}
	selects := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{
			MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}},
		}}
	}
	sidecar := new(corev1.ContainerRestartPolicyAlways)
	const (
		prefix = "exceeded quota: team, requested: "
		memory = prefix + "requests.memory=2Gi, used: requests.memory=7Gi, limited: requests.memory=8Gi"
		full   = `the pod cannot be created: ResourceQuota "team" is exceeded: `
		advice = ": request less, or remove something else"
	)
	many := []*corev1.Pod{using("d", "1Gi"), using("a", "1Gi"), using("c", "1Gi", two), using("b", "3Gi"), using("z", "9Gi", ended), using("none", "0")}
	for name, tc := range map[string]struct {
		pods       []*corev1.Pod
		text, want string
		quota      corev1.ResourceQuotaSpec
	}{
		"unknown pods": {pods: nil, text: memory, want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi" + advice},
		"many pods": {
			pods: many, text: memory, want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (3Gi), c (2Gi), a (1Gi)" + advice,
		},
		"only the resource that does not fit": {
			pods: many, text: prefix + "limits.cpu=1,limits.memory=2Gi, used: limits.cpu=1,limits.memory=7Gi, limited: limits.cpu=9,limits.memory=8Gi",
			want: full + "limits.cpu: requested 1, used 1 of 9; limits.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (3Gi), c (2Gi), a (1Gi)" + advice,
		},
		"a number of pods": {
			pods: many[:1], text: prefix + "pods=1, used: pods=1, limited: pods=1", want: full + "pods: requested 1, used 1 of 1: delete or scale down a workload, or ask for a larger quota",
		},
		"a number of objects": {
			pods: many, text: prefix + "count/pods=1, used: count/pods=6, limited: count/pods=6", want: full + "count/pods: requested 1, used 6 of 6: delete or scale down a workload, or ask for a larger quota",
		},
		"a quota of pods without requests": {pods: many, text: memory, want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi" + advice, quota: scoped(corev1.ResourceQuotaScopeBestEffort)},
		"a quota of pods with requests": {
			pods: many, text: memory, quota: scoped(corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeNotTerminating),
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (3Gi), c (2Gi), a (1Gi)" + advice,
		},
		"a quota of pods with a deadline": {
			pods: []*corev1.Pod{using("a", "1Gi"), using("b", "1Gi", deadline)}, text: memory, quota: scoped(corev1.ResourceQuotaScopeTerminating),
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (1Gi)" + advice,
		},
		"a quota of a priority class": {
			pods: []*corev1.Pod{using("a", "1Gi"), using("b", "1Gi", ofClass("high")), using("c", "1Gi", ofClass("low"))}, text: memory,
			quota: selects(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "high"),
			want:  full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (1Gi)" + advice,
		},
		"a quota of the other priority classes": {
			pods: []*corev1.Pod{using("a", "1Gi"), using("b", "1Gi", ofClass("high")), using("c", "1Gi", ofClass("low"))}, text: memory,
			quota: selects(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpNotIn, "high"),
			want:  full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: a (1Gi), c (1Gi)" + advice,
		},
		"a quota with a scope that is not known": {
			pods: many, text: memory, quota: selects(corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ScopeSelectorOpExists),
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi" + advice,
		},
		"a quota with a selector that is not known": {
			pods: many, text: memory, quota: selects(corev1.ResourceQuotaScopePriorityClass, "Like", "high"),
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi" + advice,
		},
		"an init container, which needs more than the containers": {
			pods: []*corev1.Pod{using("a", "1Gi", starts("3Gi", nil), starts("2Gi", nil)), using("b", "2Gi", starts("1Gi", nil))}, text: memory,
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: a (3Gi), b (2Gi)" + advice,
		},
		"a sidecar, which also runs during later init containers": {
			pods: []*corev1.Pod{using("a", "1Gi", starts("1Gi", sidecar)), using("b", "1Gi", starts("1Gi", sidecar), starts("2Gi", nil))}, text: memory,
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: b (3Gi), a (2Gi)" + advice,
		},
		"overhead, and resources of the pod": {
			pods: []*corev1.Pod{using("a", "1Gi", ofPod), using("b", "1Gi", overhead)}, text: memory,
			want: full + "requests.memory: requested 2Gi, used 7Gi of 8Gi; pods that use most: a (6Gi), b (1536Mi)" + advice,
		},
		"another resource": {
			pods: many, text: prefix + "services=1, used: services=1, limited: services=1", want: full + "services: requested 1, used 1 of 1: delete services that you do not need, or ask for a larger quota",
		},
		"the quota is too small for the request alone": {
			pods: many, text: prefix + "requests.memory=9Gi, used: requests.memory=7Gi, limited: requests.memory=8Gi",
			want: full + "requests.memory: requested 9Gi, used 7Gi of 8Gi: the request exceeds the whole quota; request less, or ask for a larger quota",
		},
	} {
		t.Run(name, func(t *testing.T) {
			amounts := quotaExceeded.FindStringSubmatch(tc.text)
			quota := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: tc.quota, Status: corev1.ResourceQuotaStatus{Used: parseAmounts(amounts[3]), Hard: parseAmounts(amounts[4])}}
			d := Diagnose(Workload{Events: []Event{setEvent(10, `create Pod nb-0 in StatefulSet nb failed error: pods "nb-0" is forbidden: `+tc.text)}})
			d.Complete(fakeLookup{quotas: []corev1.ResourceQuota{quota}, pods: tc.pods, podsUnread: tc.pods == nil})
			if d.Cause == nil || d.Cause.Sentence() != tc.want {
				t.Errorf("got %+v, want %q", d.Cause, tc.want)
			}
		})
	}
}

func TestTheClaimsThatUseMostOfAStorageQuotaAreNamed(t *testing.T) {
	claim := func(name, class, size string) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.StorageClassName, c.Spec.Resources.Requests = &class, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		return c
	}
	claims := []corev1.PersistentVolumeClaim{claim("a", "fast", "1Gi"), claim("b", "slow", "5Gi"), claim("c", "fast", "2Gi")}
	const fast = "fast.storageclass.storage.k8s.io/requests.storage"
	for name, tc := range map[string]struct {
		resource string
		claims   []corev1.PersistentVolumeClaim
		want     string
	}{
		"of all classes": {"requests.storage", claims, "; claims that use most: b (5Gi), c (2Gi), a (1Gi)"},
		"of one class":   {fast, claims, "; claims that use most: c (2Gi), a (1Gi)"},
		"not readable":   {fast, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			used := corev1.ResourceList{corev1.ResourceName(tc.resource): resource.MustParse("8Gi")}
			quota := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{Used: used, Hard: used}}
			e := setEvent(10, `create Claim data-nb-0 for Pod nb-0 in StatefulSet nb failed error: persistentvolumeclaims "data-nb-0" is forbidden: exceeded quota: team, requested: `+
				tc.resource+"=3Gi, used: "+tc.resource+"=8Gi, limited: "+tc.resource+"=8Gi")
			d := Diagnose(Workload{Events: []Event{e}})
			d.Complete(fakeLookup{quotas: []corev1.ResourceQuota{quota}, claims: tc.claims})
			want := tc.resource + ": requested 3Gi, used 8Gi of 8Gi" + tc.want
			if d.Cause == nil || !strings.HasSuffix(d.Cause.Message, want) {
				t.Errorf("got %+v, want the end %q", d.Cause, want)
			}
		})
	}
}

func TestAnUnknownQuotaNamesNoPods(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	e := setEvent(10, `create Pod nb-0 in StatefulSet nb failed error: pods "nb-0" is forbidden: exceeded quota: team, requested: cpu=1, used: cpu=1, limited: cpu=1`)
	d := Diagnose(Workload{Events: []Event{e}})
	d.Complete(fakeLookup{pods: []*corev1.Pod{p}})
	if want := `the pod cannot be created: ResourceQuota "team" is exceeded: cpu: requested 1, used 1 of 1`; d.Cause == nil || d.Cause.Message != want {
		t.Errorf("got %+v, want %q", d.Cause, want) // it can have scopes
	}
}
