package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func TestTheSmallestManifestBecomesAnApp(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 3")
	s.awaitReady()
	a := s.now()
	s.g.Expect(a.Status.Replicas).To(BeEquivalentTo(3))
	s.g.Expect(a.Status.ReadyReplicas).To(BeEquivalentTo(3))
	s.g.Expect(a.Status.Selector).To(Equal("bongsu.io/appservice=web"))
	s.g.Expect(a.Status.Nodes).To(ConsistOf(names(s.pods("web"))))
	s.g.Expect(a.Finalizers).To(BeEmpty())
	for kind, status := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionTrue, v1alpha1.ConditionProgressing: metav1.ConditionFalse,
		v1alpha1.ConditionDegraded: metav1.ConditionFalse, v1alpha1.ConditionStalled: metav1.ConditionFalse,
		v1alpha1.ConditionHealthy: metav1.ConditionUnknown,
	} {
		s.g.Expect(conditionOf(a, kind).Status).To(Equal(status), kind)
	}
	s.g.Expect(s.deployment().Spec.Template.Spec.Containers[0].Image).To(Equal(options.Default().AppServiceImage))
	s.g.Expect(s.isGone(&corev1.Service{}, "web")()).To(BeTrue(), "there are no ports")
	s.g.Eventually(s.eventCount(v1alpha1.ReasonScalingReplicaSet)).Should(Equal(1))
}

func TestTheNumberOfPodsFollowsTheSize(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 0")
	s.awaitReady()
	for _, size := range []int32{5, 2, 0} {
		s.resize(size)
		s.awaitReady()
		s.g.Eventually(func() []string { return s.now().Status.Nodes }).WithTimeout(patience).Should(HaveLen(int(size)))
		s.g.Expect(s.now().Status.ReadyReplicas).To(Equal(size))
	}
	s.g.Eventually(s.eventCount(v1alpha1.ReasonScalingReplicaSet)).Should(Equal(3))
}

// kubectl scale and autoscalers use this.
func TestTheScaleSubresourceSizes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1")
	s.awaitReady()
	scale := &autoscalingv1.Scale{}
	resource := s.Client.SubResource("scale")
	s.g.Expect(resource.Get(t.Context(), s.now(), scale)).To(Succeed())
	s.g.Expect(scale.Status.Replicas).To(BeEquivalentTo(1))
	s.g.Expect(scale.Status.Selector).To(Equal("bongsu.io/appservice=web"))
	scale.Spec.Replicas = 2
	s.g.Expect(resource.Update(t.Context(), s.now(), client.WithSubResourceBody(scale))).To(Succeed())
	s.g.Eventually(func() int32 { return s.now().Status.ReadyReplicas }).WithTimeout(patience).Should(BeEquivalentTo(2))
}

func TestTwoAppsOfANamespaceHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, name := range []string{"web", "web-2"} {
		s.createNamed(name, "size: 2\nports: [{name: http, containerPort: 8080}]")
	}
	var nodes []string
	for _, name := range []string{"web", "web-2"} {
		s.awaitOf(name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
		s.g.Expect(s.nowOf(name).Status.Nodes).To(ConsistOf(names(s.pods(name))))
		nodes = append(nodes, s.nowOf(name).Status.Nodes...)
	}
	s.g.Expect(nodes).To(HaveLen(4))
	seen := map[string]bool{}
	for _, n := range nodes {
		s.g.Expect(seen[n]).To(BeFalse(), n)
		seen[n] = true
	}
}

func TestRemovedChildrenAndFieldsOfAnAppAreRestored(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 2\nports: [{name: http, containerPort: 8080, servicePort: 80}]")
	s.awaitReady()
	for _, o := range []client.Object{&corev1.Service{}, &appsv1.Deployment{}} {
		o.SetNamespace(s.namespace)
		o.SetName("web")
		s.g.Expect(s.Client.Delete(t.Context(), o)).To(Succeed())
		former := o.GetUID()
		s.g.Eventually(func() error { return s.Client.Get(t.Context(), s.key("web"), o) }).WithTimeout(patience).Should(Succeed(), "%T", o)
		s.g.Expect(o.GetUID()).NotTo(Equal(former))
	}
	patch := func(o client.Object, text string) {
		t.Helper()
		o.SetNamespace(s.namespace)
		o.SetName("web")
		s.g.Expect(s.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
	}
	patch(&corev1.Service{}, `{"spec": {"selector": {"bongsu.io/appservice": "other"}}}`)
	patch(&appsv1.Deployment{}, `{"spec": {"replicas": 7}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
	s.g.Eventually(func(g Gomega) {
		var service corev1.Service
		g.Expect(s.Client.Get(t.Context(), s.key("web"), &service)).To(Succeed())
		g.Expect(service.Spec.Selector).To(HaveKeyWithValue(v1alpha1.LabelAppService, "web"))
		g.Expect(service.Spec.Ports).To(ConsistOf(HaveField("Port", BeEquivalentTo(80))))
		g.Expect(s.deployment().Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		g.Expect(s.deployment().Labels).To(HaveKeyWithValue("app.kubernetes.io/managed-by", "bongsu"))
	}).WithTimeout(patience).Should(Succeed())
	s.awaitReady()
}

// A Service cannot become headless.
func TestAServiceIsRecreatedWhenItBecomesHeadless(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nports: [{name: http, containerPort: 8080}]")
	s.awaitReady()
	ip := func() string {
		var service corev1.Service
		if err := s.Client.Get(t.Context(), s.key("web"), &service); err != nil {
			return ""
		}
		return service.Spec.ClusterIP
	}
	s.g.Expect(ip()).NotTo(Or(BeEmpty(), Equal(corev1.ClusterIPNone)))
	set := func(kind v1alpha1.ServiceType) {
		s.change(func(a *v1alpha1.AppService) { a.Spec.Service.Type = kind })
	}
	set(v1alpha1.ServiceTypeHeadless)
	s.g.Eventually(ip).WithTimeout(patience).Should(Equal(corev1.ClusterIPNone))
	set(v1alpha1.ServiceTypeNone)
	s.g.Eventually(s.isGone(&corev1.Service{}, "web")).WithTimeout(patience).Should(BeTrue())
	set(v1alpha1.ServiceTypeClusterIP)
	s.g.Eventually(ip).WithTimeout(patience).ShouldNot(Or(BeEmpty(), Equal(corev1.ClusterIPNone)))
}

func TestADeploymentOfAnotherOwnerIsNotChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	labels := map[string]string{"app": "theirs"}
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.org/theirs"}}},
			},
		},
	}
	s.g.Expect(s.Client.Create(t.Context(), theirs)).To(Succeed())
	s.g.Eventually(func() int32 { return s.deployment().Status.ReadyReplicas }).WithTimeout(patience).Should(BeEquivalentTo(1))
	s.create("size: 1")
	describe := s.describer()
	s.g.Eventually(describe).WithTimeout(patience).Should(describesFailure(diagnosis.ReasonResourceConflict, "there is a Deployment web that is not ours"))
	s.g.Expect(s.deployment().Spec.Template.Spec.Containers[0].Image).To(Equal("example.org/theirs"))
	s.g.Expect(s.now().Status.Replicas).To(BeZero(), "theirs are not the app's")
	s.await(v1alpha1.ConditionAvailable, metav1.ConditionFalse, diagnosis.ReasonResourceConflict)
	s.g.Expect(s.eventCount(v1alpha1.ReasonScalingReplicaSet)()).To(BeZero())
	s.remove()
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).Should(BeTrue())
	s.g.Expect(s.deployment().UID).To(Equal(theirs.UID))
}

func TestPodsThatAreNeverReadyAreExplained(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 2\nimage: example.org/app:nope\n" + byHand)
	for _, pod := range s.podsWithNodes(2) {
		s.kubelet.Waiting(t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/app:nope"`)
	}
	describe := s.describer()
	s.g.Eventually(describe).WithTimeout(patience).Should(describesFailure(diagnosis.ReasonImagePullBackOff, "example.org/app:nope"))
	s.await(v1alpha1.ConditionAvailable, metav1.ConditionFalse, diagnosis.ReasonImagePullBackOff)
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonImagePullBackOff)
	s.g.Eventually(func() *v1alpha1.LastFailure { return s.now().Status.LastFailure }).Should(HaveValue(HaveField("Reason", diagnosis.ReasonImagePullBackOff)))
	for _, pod := range s.podsWithNodes(2) {
		s.kubelet.Running(t, pod, true)
	}
	s.awaitReady()
	s.g.Eventually(s.eventCount(v1alpha1.ReasonRecovered)).Should(Equal(1))
	s.g.Expect(s.now().Status.LastFailure).NotTo(BeNil())
}

func TestAQuotaIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ hard, spec, want string }{
		"of pods":   {"pods: '1'", "size: 3", `ResourceQuota "small" is exceeded: pods: requested 1, used 1 of 1`},
		"of memory": {"requests.memory: 4Gi", "size: 2\ntemplate: {spec: {containers: [{name: app, resources: {requests: {memory: 3Gi}}}]}}", "requested 3Gi, used 3Gi of 4Gi; pods that use most: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			quota := cluster.Manifest(t, "ResourceQuota", s.namespace, "small", "hard: {"+tc.hard+"}")
			quota.SetAPIVersion("v1")
			s.g.Expect(s.Client.Create(t.Context(), quota)).To(Succeed())
			s.g.Eventually(func() error { return s.hasUsage("small") }).WithTimeout(patience).Should(Succeed())
			s.create(tc.spec)
			s.g.Eventually(s.describer()).WithTimeout(patience).Should(describesFailure(diagnosis.ReasonQuotaExceeded, tc.want))
			s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonQuotaExceeded)
		})
	}
}

func TestAnInvalidTemplateLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1")
	s.awaitReady()
	template := s.deployment().Spec.Template
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.Size = 2
		a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
	})
	s.g.Eventually(s.describer()).WithTimeout(patience).Should(describesFailure(diagnosis.ReasonInvalidSpec, "spec.template.spec.hostNetwork"))
	s.g.Eventually(func() *int32 { return s.deployment().Spec.Replicas }).Should(HaveValue(BeEquivalentTo(2)), "what runs can be sized")
	s.g.Expect(s.deployment().Spec.Template).To(Equal(template))
	s.change(func(a *v1alpha1.AppService) { a.Spec.Template = nil })
	s.awaitReady()
}

func TestASuspendedAppHasNoPods(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 2")
	s.awaitReady()
	s.change(func(a *v1alpha1.AppService) { a.Spec.Suspend = true })
	s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
	s.g.Expect(s.pods("web")).To(BeEmpty())
	s.await(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	s.change(func(a *v1alpha1.AppService) { a.Spec.Suspend = false })
	s.awaitReady()
}

func TestAPodThatOnlyHasOurLabelsIsNotCounted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1")
	s.awaitReady()
	// One with the labels of a ReplicaSet's pod too would be adopted by it: it would be
	// the app's in truth.
	forged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "forged", Labels: map[string]string{
			v1alpha1.LabelAppService: "web", "app.kubernetes.io/managed-by": "bongsu",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.org/forged"}}},
	}
	s.g.Expect(s.Client.Create(t.Context(), forged)).To(Succeed())
	s.g.Eventually(func() corev1.PodPhase {
		_ = s.Client.Get(t.Context(), s.key("forged"), forged)
		return forged.Status.Phase
	}).WithTimeout(patience).Should(Equal(corev1.PodRunning))
	s.resize(2)
	s.awaitReady()
	s.g.Eventually(func() []string { return s.now().Status.Nodes }).WithTimeout(patience).Should(And(HaveLen(2), Not(ContainElement("forged"))))
}

func TestAnAppWhoseVolumeIsInAnotherZoneSaysSo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ClaimElsewhere(t, s.namespace, "home")
	s.create("size: 1\ntemplate: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: home}}]}}")
	ready := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonFailedScheduling)
	s.g.Expect(ready.Message).To(And(ContainSubstring(`claim "home" has volume`), ContainSubstring("in zone zone-gone, where the cluster has no node")))
}
