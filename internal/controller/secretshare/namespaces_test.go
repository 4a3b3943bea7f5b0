package secretshare_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// withControllerManager enables quotas and the deletion of namespaces.
func withControllerManager(c *localcluster.Config) {
	c.Components = []localcluster.Component{localcluster.ControllerManager}
}

func TestOneNamespaceDoesNotBlockOthers(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as two other tests do")
	t.Parallel()
	c := cluster.Start(t, withControllerManager)
	c.StartOperator(t)
	for name, test := range map[string]func(*scene){
		"two refuse Secrets":    twoRefuseSecrets,
		"one refuses updates":   oneRefusesUpdates,
		"one is terminating":    oneIsTerminating,
		"created and deleted":   createdAndDeleted,
		"deleted and recreated": deletedAndRecreated,
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
			for range 5 {
				s.addTarget()
			}
			test(s)
		})
	}
}

func twoRefuseSecrets(s *scene) {
	refusing := slices.Clone(s.targets[:2])
	liftQuota, liftPolicy := s.forbidByQuota(refusing[0]), s.forbidByPolicy(refusing[1])
	s.secret()
	rule := s.share("")
	for _, namespace := range s.targets[2:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(Equal(hunter2))
	}
	s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)
	slices.Sort(refusing)
	s.g.Eventually(func() v1alpha1.SecretShareStatus { s.ready(rule)(); return rule.Status }).Should(And(
		HaveField("Desired", int32(5)), HaveField("Synced", int32(3)), HaveField("Failed", int32(2)), HaveField("Conflicted", int32(0)),
		HaveField("Failing", HaveExactElements(HaveField("Namespace", refusing[0]), HaveField("Namespace", refusing[1]))),
		HaveField("Failing", ConsistOf(
			HaveField("Message", ContainSubstring(`ResourceQuota "none" is exceeded`)),
			HaveField("Message", And(ContainSubstring("no Secrets here"), HaveSuffix("ask the cluster's administrator"))),
		)),
	))
	s.ExpectWarning(s.t, rule, v1alpha1.ReasonCopyFailed, "clustersecretshare-controller")
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)).To(HaveSuffix("; also failing: " + refusing[1]))
	for _, namespace := range refusing {
		// The owner of the namespace cannot read the rule.
		missing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}}
		s.ExpectWarning(s.t, missing, v1alpha1.ReasonCopyFailed, "clustersecretshare-controller")
	}

	liftQuota()
	liftPolicy()
	s.expectCopies(hunter2)
	s.expectReady(rule)
	s.g.Expect(rule.Status).To(And(HaveField("Synced", int32(5)), HaveField("Failed", int32(0)), HaveField("Failing", BeEmpty())))
}

func oneRefusesUpdates(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 5)
	lift := s.forbidByPolicy(s.targets[0])
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	s.expectNotReady(rule, v1alpha1.ReasonCopyFailed)
	for _, namespace := range s.targets[1:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(HaveKeyWithValue("password", []byte("hunter3")))
	}
	s.g.Expect(s.data(s.targets[0], "shared")()).To(Equal(hunter2))
	lift()
	s.expectCopies(map[string][]byte{"password": []byte("hunter3")})
	s.expectReady(rule)
}

func oneIsTerminating(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 5)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.targets[0], Name: "held", Finalizers: []string{"example.com/hold"},
	}}
	s.g.Expect(s.Client.Create(s.t.Context(), held)).To(Succeed())
	s.terminate(s.targets[0])
	s.expectNone(s.targets[0], "shared")
	s.update(s.source, "shared", func(o *corev1.Secret) { o.Data["password"] = []byte("hunter3") })
	for _, namespace := range s.targets[1:] {
		s.g.Eventually(s.data(namespace, "shared")).Should(HaveKeyWithValue("password", []byte("hunter3")))
	}
	s.expectSynced(rule, 4)
	s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(BeNil())

	// A rule can be deleted while one of its namespaces cannot.
	s.g.Expect(s.Client.Delete(s.t.Context(), rule.DeepCopy())).To(Succeed())
	s.g.Eventually(func() bool {
		return apierrors.IsNotFound(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(rule), rule))
	}).Should(BeTrue())
	s.patch(held, `{"metadata":{"finalizers":null}}`)
}

func createdAndDeleted(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 5)
	for range 30 {
		s.terminate(s.Namespace(s.t, map[string]string{team: s.source}))
	}
	s.addTarget()
	s.expectCopies(hunter2)
	s.expectSynced(rule, 6)
}

func deletedAndRecreated(s *scene) {
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 5)
	s.terminate(s.targets[0])
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.targets[0], Labels: map[string]string{team: s.source}}}
	s.g.Eventually(func() error { return s.Client.Create(s.t.Context(), again.DeepCopy()) }).Should(Succeed())
	s.expectCopies(hunter2)
	s.expectSynced(rule, 5)
}

// recreate deletes the source's namespace and creates another one with the same name. In it
// is a Secret of another tenant.
func (s *scene) recreate() {
	s.t.Helper()
	s.terminate(s.source)
	s.NamespaceAgain(s.t, s.source)
	s.secret(func(o *corev1.Secret) { o.Data = theirs })
}

var theirs = map[string][]byte{"password": []byte("of another tenant")}

// The owner of the new namespace does not have the trust that the former one had.
func TestANewNamespaceDoesNotInheritAGrant(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as two other tests do")
	t.Parallel()
	c := cluster.Start(t, withControllerManager)
	start := func() *cluster.Operator { return c.StartOperator(t) } // until the last subtest
	operator := start()
	for name, whileDown := range map[string]bool{"while the operator runs": false, "while it is down": true} {
		t.Run(name, func(t *testing.T) {
			s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
			s.addTarget()
			s.secret()
			rule := s.tenantShare("source: {names: [shared]}\ntargets: {}")
			grant := &granted{s, s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]"), rule}
			grant.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
			if whileDown {
				// Its finalizer would keep the namespace.
				s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
				s.g.Eventually(func() error { return s.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule) }).
					Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
				s.g.Expect(operator.Stop()).To(Succeed())
			}
			s.recreate()
			s.tenantShare("source: {names: [shared]}\ntargets: {}")
			if whileDown {
				operator = start()
			}
			s.g.Eventually(func() []metav1.Condition { return grant.status().Conditions }).Should(ContainElement(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonSourceRecreated),
				HaveField("Message", ContainSubstring("namespace "+s.source+" was deleted and created again")),
			)))
			s.ExpectWarning(t, grant.object, v1alpha1.ReasonSourceRecreated, "secretsharegrant-controller")
			s.g.Consistently(s.data(s.targets[0], "shared"), "1s").Should(BeNil())

			s.g.Expect(s.Client.Delete(t.Context(), grant.object.DeepCopy())).To(Succeed())
			s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
			s.g.Eventually(s.data(s.targets[0], "shared")).Should(Equal(theirs))
			grant.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
		})
	}
	t.Run("the source of a ClusterSecretShare", func(t *testing.T) {
		s := &scene{Cluster: c, t: t, g: NewWithT(t), source: c.Namespace(t, nil)}
		s.addTarget()
		s.secret()
		rule := s.share("")
		s.expectSynced(rule, 1)
		s.recreate()
		s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceRecreated)).To(ContainSubstring("set spec.suspend"))
		s.ExpectWarning(t, rule, v1alpha1.ReasonSourceRecreated, "clustersecretshare-controller")
		s.g.Consistently(s.data(s.targets[0], "shared"), "1s").ShouldNot(Equal(theirs))

		s.patch(rule.DeepCopy(), `{"spec":{"suspend":true}}`)
		s.patch(rule.DeepCopy(), `{"spec":{"suspend":false}}`)
		s.expectCopies(theirs)
		s.expectReady(rule)
	})
}

// A namespace that does not exist yet can be named. The first one with this name counts.
func TestAGrantAllowsANamespaceThatIsCreatedLater(t *testing.T) {
	s := newScene(t, 1)
	s.source += "-later"
	grant := &granted{s, s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]"), nil}
	grant.expect(metav1.ConditionTrue, v1alpha1.ReasonUnused, nil, nil)
	s.g.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.source}})).To(Succeed())
	s.secret()
	s.tenantShare("source: {names: [shared]}\ntargets: {}")
	s.expectCopies(hunter2)
	grant.expect(metav1.ConditionTrue, v1alpha1.ReasonReady, []string{"shared"}, nil)
}

// expectSynced waits until the rule is Ready with this number of namespaces. A rule is
// also Ready before the operator has observed its namespaces.
func (s *scene) expectSynced(rule *v1alpha1.ClusterSecretShare, namespaces int32) {
	s.t.Helper()
	s.g.Eventually(func() v1alpha1.SecretShareStatus {
		if s.ready(rule)().Status != metav1.ConditionTrue {
			return v1alpha1.SecretShareStatus{}
		}
		return rule.Status
	}).Should(And(HaveField("Desired", namespaces), HaveField("Synced", namespaces), HaveField("Failing", BeEmpty())))
}

func (s *scene) terminate(namespace string) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	s.g.Expect(s.Client.Delete(s.t.Context(), ns)).To(Succeed())
}

// forbidByQuota creates a quota that allows no Secrets.
func (s *scene) forbidByQuota(namespace string) (lift func()) {
	s.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}},
	}
	s.g.Expect(s.Client.Create(s.t.Context(), quota)).To(Succeed())
	s.awaitRefused(namespace)
	return func() { s.g.Expect(s.Client.Delete(s.t.Context(), quota)).To(Succeed()) }
}

// forbidByPolicy creates an admission policy that refuses all Secrets in a namespace.
func (s *scene) forbidByPolicy(namespace string) (lift func()) {
	s.t.Helper()
	return s.Deny(s.t, namespace, "secrets", "'no Secrets here'", admissionv1.Create, admissionv1.Update)
}

// awaitRefused waits until the API server refuses to create Secrets.
func (s *scene) awaitRefused(namespace string) {
	s.t.Helper()
	n := 0
	s.g.Eventually(func() error {
		n++
		return s.Client.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("probe-", n)},
		}, client.DryRunAll)
	}).Should(HaveOccurred())
}

func (s *scene) grant(namespace, spec string) *v1alpha1.SecretShareGrant {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "SecretShareGrant", namespace, "it", spec))).To(Succeed())
	return &v1alpha1.SecretShareGrant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it"}}
}

func (s *scene) tenantShare(spec string) *v1alpha1.SecretShare {
	s.t.Helper()
	s.g.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "SecretShare", s.source, "it", spec))).To(Succeed())
	return &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "it"}}
}

func TestASecretShareCopiesOnlyToNamespacesWithAGrant(t *testing.T) {
	s := newScene(t, 3)
	s.secret()
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {}")
	s.expectReady(rule)
	s.g.Expect(rule.Status.Desired).To(BeZero())

	grant := s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	s.grant(s.targets[1], "from: [{namespace: elsewhere}]")
	s.grant(s.targets[2], "from: [{namespace: "+s.source+"}]\nto: [{name: other-*}]")
	s.g.Eventually(s.data(s.targets[0], "shared")).Should(Equal(hunter2))
	message := s.expectNotReady(rule, v1alpha1.ReasonNotGranted)
	s.g.Expect(message).To(ContainSubstring(s.targets[2]))
	for _, namespace := range s.targets[1:] {
		_, err := s.get(namespace, "shared")
		s.g.Expect(err).To(HaveOccurred())
	}

	s.g.Expect(s.Client.Delete(t.Context(), grant)).To(Succeed())
	s.expectNone(s.targets[0], "shared")
}

func TestANamedTargetWithoutAGrantIsReported(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {names: [" + s.targets[0] + ", does-not-exist]}")
	s.expectNotReady(rule, v1alpha1.ReasonNotGranted)
	s.g.Expect(rule.Status.Failing).To(HaveLen(2), "the status must not show whether a namespace exists")
	s.g.Expect(rule.Status.Failing[0].Message).To(Equal(rule.Status.Failing[1].Message))
	s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]\nto: [{name: shared}]")
	s.g.Eventually(s.data(s.targets[0], "shared")).Should(Equal(hunter2))
}

func TestARuleThatTargetsItsOwnNamespaceWritesNothing(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.grant(s.targets[0], "from: [{namespace: "+s.source+"}]")
	rule := s.tenantShare("source: {names: [shared]}\ntargets: {names: [" + s.targets[0] + ", " + s.source + "]}")
	s.expectNotReady(rule, v1alpha1.ReasonInvalidTarget)
	_, err := s.get(s.targets[0], "shared")
	s.g.Expect(err).To(HaveOccurred())
}

// A Secret in the operator's namespace could change the operator.
func TestTheOperatorsNamespaceGetsNoCopies(t *testing.T) {
	s := newScene(t, 1)
	s.secret()
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bongsu-system"}}, `{"metadata":{"labels":{"`+team+`":"`+s.source+`"}}}`)
	s.grant("bongsu-system", "from: [{namespace: "+s.source+"}]")
	rule := s.share("")
	ours := s.tenantShare("source: {names: [shared]}\ntargets: {}")
	s.expectSynced(rule, 1)
	s.expectReady(ours)
	_, err := s.get("bongsu-system", "shared")
	s.g.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))

	for _, o := range []secretshare.Object{rule, ours} {
		s.patch(o.DeepCopyObject().(client.Object), `{"spec":{"targets":{"namespaceSelector":null,"names":["bongsu-system"]}}}`)
		s.g.Expect(s.expectNotReady(o, v1alpha1.ReasonInvalidTarget)).To(ContainSubstring("the namespace of the operator"))
	}
}

func TestTheDefaultRuleCopiesToAllNamespaces(t *testing.T) {
	s := newScene(t, 2)
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}}
	s.g.Eventually(s.ready(rule)).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("nothing to copy yet"))))
	before := s.ready(rule)().LastTransitionTime
	s.addTarget()
	s.g.Consistently(s.ready(rule), "500ms").Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("LastTransitionTime", before)),
		"a new namespace gets no copies")
	defaultSource(t, s.Cluster)
	s.g.Expect(s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretsync", Name: "supersecret"},
		Type:       "bongsu.io/secretsync", StringData: map[string]string{"ziwon": "awesome"},
	})).To(Succeed())
	for _, namespace := range append(s.targets, "default", s.source) {
		s.g.Eventually(s.data(namespace, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")), "in %s", namespace)
	}
	s.expectReady(rule)
	for _, namespace := range []string{"kube-system", "bongsu-system"} {
		_, err := s.get(namespace, "supersecret")
		s.g.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"), namespace)
	}

	another := s.addTarget()
	s.g.Eventually(s.data(another, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")))
	s.patch(rule.DeepCopy(), `{"spec":{"source":{"type":"k8s.ziwon.dev/secretsync"}}}`)
	s.expectNone(another, "supersecret")
	s.patch(rule.DeepCopy(), `{"spec":{"source":{"type":"bongsu.io/secretsync"}}}`)
	s.g.Eventually(s.data(another, "supersecret")).Should(HaveKeyWithValue("ziwon", []byte("awesome")))
	s.g.Expect(s.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "secretsync", Name: "supersecret"}})).To(Succeed())
	s.expectNone(another, "supersecret")
}

// The API server accepts every selector with the right structure.
func TestAnInvalidSelectorIsReportedAndNothingIsWritten(t *testing.T) {
	for name, tc := range map[string]struct{ source, more, field string }{
		"a selector of the source": {
			"names: [shared], selector: {matchExpressions: [{key: tier, operator: In}]}", "", "spec.source.selector: ",
		},
		"an unknown operator": {
			"names: [shared], selector: {matchExpressions: [{key: tier, operator: Like, values: [a]}]}", "", "spec.source.selector: ",
		},
		"a wildcard":     {"names: [shared]", "targets: {namespaceSelector: {matchLabels: {team: '*'}}}", "spec.targets.namespaceSelector: "},
		"an invalid key": {"names: [shared], selector: {matchLabels: {'a b': c}}", "", "spec.source.selector: "},
		"a selector of the targets": {
			"names: [shared]", "targets: {namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: []}]}}",
			"spec.targets.namespaceSelector: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			s.secret(func(o *corev1.Secret) { o.Labels = map[string]string{"tier": "a"} })
			targets := tc.more
			if targets == "" {
				targets = s.selected()
			}
			spec := "source: {namespace: " + s.source + ", " + tc.source + "}\n" + targets
			rule := cluster.Manifest(t, "ClusterSecretShare", "", s.source, spec)
			s.g.Expect(s.Client.Create(t.Context(), rule)).To(Succeed())
			t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule) })

			typed := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
			s.g.Expect(s.expectNotReady(typed, v1alpha1.ReasonInvalidSelector)).To(HavePrefix(tc.field))
			s.ExpectWarning(t, typed, v1alpha1.ReasonInvalidSelector, "clustersecretshare-controller")
			s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(BeNil())

			s.patch(rule, `{"spec":{"source":{"selector":null},"targets":{"namespaceSelector":{"matchExpressions":null,"matchLabels":{"`+team+`":"`+s.source+`"}}}}}`)
			s.expectReady(typed)
			s.expectCopies(hunter2)
		})
	}
}

func TestARuleWhoseSelectorBecomesInvalidKeepsItsCopies(t *testing.T) {
	s := newScene(t, 2)
	s.secret()
	rule := s.share("")
	s.expectSynced(rule, 2)
	s.patch(rule.DeepCopy(), `{"spec":{"targets":{"namespaceSelector":{"matchExpressions":[{"key":"tier","operator":"In"}]}}}}`)
	s.expectNotReady(rule, v1alpha1.ReasonInvalidSelector)
	s.g.Consistently(s.data(s.targets[0], "shared"), "500ms").Should(Equal(hunter2))
	s.g.Expect(s.Client.Delete(t.Context(), rule.DeepCopy())).To(Succeed())
	for _, namespace := range s.targets {
		s.expectNone(namespace, "shared")
	}
	s.g.Eventually(s.ready(rule)).Should(BeZero(), "a rule with an invalid selector can be deleted")
}

func TestASourceNamespaceCanBeCreatedAfterTheRule(t *testing.T) {
	s := newScene(t, 2)
	targets := s.selected()
	s.source += "-later"
	spec := "source: {namespace: " + s.source + ", names: [shared]}\n" + targets
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: s.source}}
	s.g.Expect(s.Client.Create(t.Context(), cluster.Manifest(t, "ClusterSecretShare", "", rule.Name, spec))).To(Succeed())
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), rule.DeepCopy()) })
	s.g.Expect(s.expectNotReady(rule, v1alpha1.ReasonSourceNotFound)).To(ContainSubstring("namespace " + s.source))
	s.ExpectWarning(t, rule, v1alpha1.ReasonSourceNotFound, "clustersecretshare-controller")

	s.g.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.source}})).To(Succeed())
	s.secret()
	s.expectCopies(hunter2)
	s.expectReady(rule)
}
