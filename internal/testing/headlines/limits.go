package headlines

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// ofLimits are states in which the rules of the namespace forbid the pod.
func ofLimits() map[string]Row {
	return map[string]Row{
		"the quota has no room": {
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				Quota(t, c.Client, namespace, "none", corev1.ResourcePods, "0")
			},
			Sentence: Sentence{diagnosis.ReasonQuotaExceeded, `the pod cannot be created: ResourceQuota "none" is exceeded: pods: requested 1, used 0 of 0: the request exceeds the whole quota; ask for a larger quota`},
		},
		"another pod uses the quota": {
			PodSpec: "containers: [{name: CONTAINER, resources: {requests: {memory: 2Gi}}}]",
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				Quota(t, c.Client, namespace, "team", corev1.ResourceRequestsMemory, "4Gi")
				podWith(t, c.Client, namespace, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")})
			},
			Sentence: Sentence{diagnosis.ReasonQuotaExceeded, `the pod cannot be created: ResourceQuota "team" is exceeded: requests.memory: requested 2Gi, used 3Gi of 4Gi; pods that use most: etl (3Gi): ` +
				`request less, or remove something else`},
		},
		"the request exceeds a LimitRange": {
			PodSpec: "containers: [{name: CONTAINER, resources: {requests: {cpu: '4'}, limits: {cpu: '4'}}}]",
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				limits(t, c.Client, namespace, corev1.LimitRangeItem{Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}})
			},
			Sentence: Sentence{diagnosis.ReasonAdmissionDenied, `the pod cannot be created: LimitRange "sizes" of the namespace forbids it: maximum cpu usage per Container is 2, but limit is 4: change resources`},
		},
		"a LimitRange sets a limit": {
			PodSpec: "containers: [{name: CONTAINER, resources: {requests: {cpu: '4'}}}]",
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				limits(t, c.Client, namespace, corev1.LimitRangeItem{Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}})
			},
			Sentence: Sentence{diagnosis.ReasonFailedCreate, `the pod cannot be created: spec.containers[0].resources.requests: Invalid value: "4": must be less than or equal to cpu limit of 2; this is the limit that LimitRange "sizes" sets if a container has none: set a limit of cpu, or request less`},
		},
		"an admission policy denies the pod": {
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				c.Deny(t, namespace, "pods", "'no pods today'", admissionregistrationv1.Create)
			},
			Sentence: Sentence{diagnosis.ReasonAdmissionDenied, `the pod cannot be created: admission policy "…" forbids it: no pods today: change the spec accordingly, or ask the cluster's administrator`},
		},
		"an admission policy denies the pod with a long text": {
			Prepare: func(t testing.TB, c *cluster.Cluster, namespace string) {
				c.Deny(t, namespace, "pods", "'"+strings.Repeat("no pods today, ", 200)+"nor tomorrow'", admissionregistrationv1.Create)
			},
			Sentence: Sentence{diagnosis.ReasonAdmissionDenied, `the pod cannot be created: admission policy "…" forbids it: no pods today, no pods today, …`},
		},
	}
}

// podWith creates the pod "etl" of another owner.
func podWith(t testing.TB, c client.Client, namespace string, requests corev1.ResourceList) {
	t.Helper()
	NewWithT(t).Expect(c.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etl"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.org/etl:1", Resources: corev1.ResourceRequirements{Requests: requests}}}},
	})).To(Succeed())
}

// limits creates the LimitRange "sizes" for containers, which is in force at once.
func limits(t testing.TB, c client.Client, namespace string, item corev1.LimitRangeItem) {
	t.Helper()
	item.Type = corev1.LimitTypeContainer
	NewWithT(t).Expect(c.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}},
	})).To(Succeed())
}

// Quota bounds the namespace, and returns when the bound is in force.
func Quota(t testing.TB, c client.Client, namespace, name string, of corev1.ResourceName, amount string) {
	t.Helper()
	g := NewWithT(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse(amount)}},
	}
	g.Expect(c.Create(t.Context(), quota)).To(Succeed())
	g.Eventually(func() (corev1.ResourceList, error) {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		return quota.Status.Hard, err
	}).WithTimeout(patience).ShouldNot(BeEmpty())
}
