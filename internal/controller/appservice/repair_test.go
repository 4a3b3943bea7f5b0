package appservice_test

import (
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const editable = `
size: 1
ports: [{name: http, containerPort: 8080, servicePort: 80}]
template:
  spec:
    volumes: [{name: scratch, emptyDir: {}}]
    containers:
    - name: app
      env: [{name: MODE, value: fast}]
      readinessProbe: {httpGet: {port: 8080}}
`

// An apply would add to each edit: two ports of one name, or a variable, a volume or a
// probe of two types. The API server refuses that.
func TestAnEditThatContradictsTheSpecIsUndone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(editable)
	s.awaitReady()
	pod := func(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }
	for name, tc := range map[string]struct {
		edit func(*appsv1.Deployment)
		want OmegaMatcher
	}{
		"a value becomes a reference": {
			func(d *appsv1.Deployment) {
				pod(d).Containers[0].Env[0] = corev1.EnvVar{Name: "MODE", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
				}}
			},
			HaveField("Containers", ConsistOf(HaveField("Env", ConsistOf(corev1.EnvVar{Name: "MODE", Value: "fast"})))),
		},
		"a volume of another type": {
			func(d *appsv1.Deployment) {
				pod(d).Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "a"},
				}}
			},
			HaveField("Volumes", ConsistOf(And(HaveField("EmptyDir", Not(BeNil())), HaveField("ConfigMap", BeNil())))),
		},
		"another handler of a probe": {
			func(d *appsv1.Deployment) {
				pod(d).Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}
			},
			HaveField("Containers", ConsistOf(HaveField("ReadinessProbe", And(HaveField("HTTPGet", Not(BeNil())), HaveField("TCPSocket", BeNil()))))),
		},
	} {
		s.g.Eventually(func() error {
			d := s.deployment()
			tc.edit(d)
			return s.Client.Update(t.Context(), d, client.FieldOwner("editor"))
		}).WithTimeout(patience).Should(Succeed(), name)
		s.g.Eventually(func() *corev1.PodSpec { return pod(s.deployment()) }).WithTimeout(patience).Should(HaveValue(tc.want), name)
	}
	var service corev1.Service
	s.g.Expect(s.Client.Get(t.Context(), s.key("web"), &service)).To(Succeed())
	uid, address := service.UID, service.Spec.ClusterIP
	service.Spec.Ports[0].Port = 81
	s.g.Expect(s.Client.Update(t.Context(), &service, client.FieldOwner("editor"))).To(Succeed())
	s.g.Eventually(func(g Gomega) {
		g.Expect(s.Client.Get(t.Context(), s.key("web"), &service)).To(Succeed())
		g.Expect(service.Spec.Ports).To(ConsistOf(HaveField("Port", BeEquivalentTo(80))))
	}).WithTimeout(patience).Should(Succeed())
	selector := maps.Clone(service.Spec.Selector)
	noPod := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"selector": {"track": "other"}}}`))
	s.g.Expect(s.Client.Patch(t.Context(), &service, noPod, client.FieldOwner("editor"))).To(Succeed())
	s.g.Eventually(func(g Gomega) {
		g.Expect(s.Client.Get(t.Context(), s.key("web"), &service)).To(Succeed())
		g.Expect(service.Spec.Selector).To(Equal(selector))
	}).WithTimeout(patience).Should(Succeed())
	s.g.Expect(service.UID).To(Equal(uid))
	s.g.Expect(service.Spec.ClusterIP).To(Equal(address))
	s.awaitReady()
	s.g.Expect(s.eventCount(diagnosis.ReasonInvalidSpec)()).To(BeZero())
	s.g.Eventually(s.eventCount(v1alpha1.ReasonRevertedEdit)).Should(BeNumerically(">=", 2), "of the Deployment and of the Service")
}

func TestAChangeOfTheSpecIsNoEditOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(editable)
	s.awaitReady()
	s.change(func(a *v1alpha1.AppService) { a.Spec.Template.Spec.Containers[0].Env[0].Value = "slow" })
	s.g.Eventually(func() string { return s.deployment().Spec.Template.Spec.Containers[0].Env[0].Value }).WithTimeout(patience).Should(Equal("slow"))
	// A refused template leaves only the size to change.
	s.change(func(a *v1alpha1.AppService) { a.Spec.Size, a.Spec.Template.Spec.NodeName = 2, "a" })
	s.g.Eventually(func() *int32 { return s.deployment().Spec.Replicas }).WithTimeout(patience).Should(HaveValue(BeEquivalentTo(2)))
	s.change(func(a *v1alpha1.AppService) { a.Spec.Size, a.Spec.Template.Spec.NodeName = 1, "" })
	s.g.Eventually(func() *int32 { return s.deployment().Spec.Replicas }).WithTimeout(patience).Should(HaveValue(BeEquivalentTo(1)))
	s.awaitReady()
	s.g.Expect(s.eventCount(v1alpha1.ReasonRevertedEdit)()).To(BeZero())
}

// The cache keeps only a part of a large child.
func TestALargeDeploymentIsWrittenOnlyForAChange(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\ntemplate: {spec: {containers: [{name: app, env: [{name: LONG, value: " + strings.Repeat("x", 20_000) + "}]}]}}")
	s.awaitReady()
	before := s.deployment()
	s.resize(2)
	s.g.Eventually(func() int32 { return s.now().Status.ReadyReplicas }).WithTimeout(patience).Should(BeEquivalentTo(2))
	s.awaitReady()
	after := s.deployment()
	s.g.Expect(after.Generation).To(Equal(before.Generation + 1))
	s.g.Expect(after.Spec.Template).To(Equal(before.Spec.Template))
	s.g.Expect(s.eventCount(v1alpha1.ReasonRevertedEdit)()).To(BeZero())
}

// These children have no owner reference: the annotation names their owner.
func TestAChildThatLosesALabelStillBelongsToItsApp(t *testing.T) {
	t.Parallel()
	for _, label := range []string{workload.LabelName, workload.LabelManagedBy, v1alpha1.LabelAppService} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create("size: 1\nports: [{name: http, containerPort: 8080}]\nbackup: {exec: {command: ['true']}}")
			s.awaitReady()
			uid := s.deployment().UID
			for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
				s.withoutLabel(o, "web", label)
				s.g.Eventually(func() map[string]string {
					s.g.Expect(s.Client.Get(t.Context(), s.key("web"), o)).To(Succeed())
					return o.GetLabels()
				}).WithTimeout(patience).Should(HaveKey(label))
			}
			s.awaitReady()
			s.g.Expect(s.deployment().UID).To(Equal(uid))
			s.g.Expect(s.eventCount(diagnosis.ReasonResourceConflict)()).To(BeZero())
			s.remove()
			s.awaitGone()
		})
	}
}

// The operator must also find what lost the label of its cache while it was down.
func TestAChildThatLosesItsLabelAndIsNoLongerWantedIsDeleted(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, cluster.Borrow(t))
	operator := s.StartOperator(t)
	s.create("size: 1\nports: [{name: http, containerPort: 8080}]\ndisruptionBudget: {maxUnavailable: 1}")
	s.awaitReady()
	children := []client.Object{&corev1.Service{}, &policyv1.PodDisruptionBudget{}}
	for _, o := range children {
		s.g.Eventually(func() error { return s.Client.Get(t.Context(), s.key("web"), o) }).WithTimeout(patience).Should(Succeed())
	}
	s.g.Expect(operator.Stop()).To(Succeed())
	for _, o := range children {
		s.withoutLabel(o, "web", workload.LabelManagedBy)
	}
	s.change(func(a *v1alpha1.AppService) { a.Spec.Ports, a.Spec.DisruptionBudget = nil, nil })
	s.StartOperator(t)
	for _, o := range children {
		s.g.Eventually(s.isGone(o, "web")).WithTimeout(patience).Should(BeTrue())
	}
}

// The cache lacks these objects.
func TestPodsAreFoundWithoutTheLabelOfTheCache(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]client.ObjectList{"a pod": &corev1.PodList{}, "a ReplicaSet": &appsv1.ReplicaSetList{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create("size: 1")
			s.awaitReady()
			s.g.Expect(s.Client.List(t.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
			switch list := list.(type) {
			case *corev1.PodList:
				s.withoutLabel(&list.Items[0], list.Items[0].Name, workload.LabelManagedBy)
			case *appsv1.ReplicaSetList:
				s.withoutLabel(&list.Items[0], list.Items[0].Name, workload.LabelManagedBy)
			}
			s.change(func(a *v1alpha1.AppService) {
				a.Spec.HealthCheck = nil
				a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
			})
			s.awaitReady()
			s.g.Consistently(func() []string { return s.now().Status.Nodes }, "2s").Should(Equal(names(s.pods("web"))))
		})
	}
}

func (s *scene) withoutLabel(o client.Object, name, label string) {
	s.t.Helper()
	o.SetNamespace(s.namespace)
	o.SetName(name)
	patch := `{"metadata": {"labels": {"` + label + `": null}}}`
	s.g.Expect(s.Client.Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("editor"))).To(Succeed())
}

// The backup of the AppService never ends: it has no pod, and waits for its deadline. It
// is deleted before its namespace.
func TestAnAppWithoutADeploymentDoesNotDelayItsNamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nbackup: {exec: {command: ['true']}, deadlineSeconds: 3600}\ntemplate: {spec: {hostNetwork: true}}")
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonInvalidSpec)
	s.remove()
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupStarted)
	s.g.Expect(s.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
	s.g.Eventually(func() bool {
		return apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKey{Name: s.namespace}, &corev1.Namespace{}))
	}).WithTimeout(patience).Should(BeTrue())
}

// No operator acts between the change and the deletion.
func TestTheDeletionPolicyIsThatOfTheDeletion(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	s := sceneIn(t, c)
	operator := c.StartOperator(t)
	s.create("size: 1\ndeletionPolicy: Retain")
	s.awaitReady()
	s.g.Expect(operator.Stop()).To(Succeed())
	s.change(func(a *v1alpha1.AppService) { a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	s.remove()
	c.StartOperator(t)
	s.awaitGone()
}

// The Deployment cannot lose its owner reference before the deletion, because the template is
// refused.
func TestARetainedAppKeepsItsObjectsWhateverItsTemplate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nports: [{name: http, containerPort: 8080}]")
	s.awaitReady()
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
		a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
	})
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonInvalidSpec)
	s.remove()
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		s.g.Expect(s.Client.Get(t.Context(), s.key("web"), o)).To(Succeed())
		s.g.Expect(o.GetOwnerReferences()).To(BeEmpty())
		s.g.Expect(o.GetDeletionTimestamp()).To(BeNil())
	}
}

func TestAPausedDeploymentIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1")
	s.awaitReady()
	pause := func(paused string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"paused": `+paused+`}}`))
		s.g.Expect(s.Client.Patch(t.Context(), s.deployment(), patch, client.FieldOwner("editor"))).To(Succeed())
	}
	pause("true")
	s.change(func(a *v1alpha1.AppService) { a.Spec.Image = "example.org/app:2" })
	s.g.Eventually(s.describer()).WithTimeout(patience).Should(describesFailure(
		diagnosis.ReasonDeploymentPaused, "kubectl rollout resume deployment/web -n "+s.namespace))
	pause("null")
	s.awaitReady()
}
