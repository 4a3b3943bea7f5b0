package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// tenancy is a cluster in which a tenant and an administrator use all features.
type tenancy struct {
	*cluster.Cluster
	*WithT
	t        *testing.T
	operator *cluster.Operator
	health   string
	source   string
	round    int
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	s := &tenancy{Cluster: cluster.Start(t), WithT: NewWithT(t), t: t, health: freeAddress(t)}
	s.source = s.Namespace(t, nil)
	s.create("AlarmReceiver", s.source, "log: {}")
	s.create("Alarm", s.source, "match: [{reasons: [Tenant]}]\nreceivers: [{name: it}]")
	s.create("ClusterAlarmReceiver", "", "log: {}")
	s.create("ClusterAlarm", "", "match: [{reasons: [Administrator]}]\nreceivers: [{name: it}]")
	s.Expect(s.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "shared"}})).To(Succeed())
	s.create("SecretShare", s.source, "source: {names: [shared]}\ntargets: {}")
	s.operator = s.StartOperator(t, func(o *options.Options) { o.HealthAddress = s.health })
	return s
}

func (s *tenancy) create(kind, namespace, spec string) {
	s.t.Helper()
	s.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, kind, namespace, "it", spec))).To(Succeed())
}

// use makes work for the operator, for a tenant and for an administrator. The work for the
// tenant is in a new namespace.
func (s *tenancy) use() (namespace string) {
	s.t.Helper()
	s.round++
	namespace = s.Namespace(s.t, nil)
	s.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "Alarm", s.source, s.newAlarm().Name, fmt.Sprintf("match: [{reasons: [New%d]}]\nreceivers: [{name: it}]", s.round)))).To(Succeed())
	s.create("SecretShareGrant", namespace, "from: [{namespace: "+s.source+"}]")
	s.create("Jupyter", namespace, "{}")
	s.create("AppService", namespace, "size: 1")
	s.Expect(s.Client.Create(s.t.Context(), cluster.Manifest(s.t, "ClusterSecretShare", "", namespace, "source: {namespace: "+namespace+", names: [missing]}\ntargets: {}"))).To(Succeed())
	if s.readiness() == "ok" {
		s.ExpectReady(s.t, s.newAlarm())
	}
	for _, reason := range []string{s.newReason(), "Tenant", "Administrator"} {
		s.Expect(s.Client.Create(s.t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.source, GenerateName: "it-"}, Type: corev1.EventTypeWarning,
			EventTime: metav1.NowMicro(), ReportingController: "test", ReportingInstance: "test", Action: "Test",
			Reason: reason, Note: s.note(reason), Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: s.source, Name: "it"},
		})).To(Succeed())
	}
	return namespace
}

// newAlarm is the Alarm of this round. The Alarm "it" exists in all rounds.
func (s *tenancy) newAlarm() *v1alpha1.Alarm {
	return &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: fmt.Sprint("round-", s.round)}}
}

// newReason is the reason of the Events that the new Alarm matches.
func (s *tenancy) newReason() string { return fmt.Sprint("New", s.round) }

func (s *tenancy) note(of string) string { return fmt.Sprintf("%s in round %d;", of, s.round) }

func (s *tenancy) expectMessageFor(recipient string) {
	s.t.Helper()
	s.Eventually(s.operator.Out.String).Should(ContainSubstring(s.note(recipient)))
}

// done returns what the operator has done for the tenant.
func (s *tenancy) done(namespace string) func(Gomega) []string {
	return func(g Gomega) []string {
		var done []string
		if strings.Contains(s.operator.Out.String(), s.note(s.newReason())) {
			done = append(done, "message")
		}
		for what, list := range map[string]client.ObjectList{
			"copies": &corev1.SecretList{}, "apps": &appsv1.DeploymentList{}, "notebooks": &appsv1.StatefulSetList{},
		} {
			g.Expect(s.Client.List(s.t.Context(), list, client.InNamespace(namespace))).To(Succeed())
			if n := metaLen(list); n > 0 {
				done = append(done, what)
			}
		}
		return done
	}
}

// written are the objects that use has created in this round.
func (s *tenancy) written(namespace string) []cluster.Summarized {
	it := metav1.ObjectMeta{Namespace: namespace, Name: "it"}
	return []cluster.Summarized{
		s.newAlarm(), &v1alpha1.SecretShareGrant{ObjectMeta: it}, &v1alpha1.Jupyter{ObjectMeta: it}, &v1alpha1.AppService{ObjectMeta: it},
		&v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
	}
}

// rewrite changes the spec of objects.
func (s *tenancy) rewrite(t *testing.T, objects []cluster.Summarized) {
	t.Helper()
	patches := []string{
		`{"spec": {"match": [{"reasons": ["Other"]}]}}`, `{"spec": {"to": [{"name": "shared"}]}}`, `{"spec": {"image": "example.org/other"}}`, `{"spec": {"size": 2}}`,
		`{"spec": {"source": {"names": ["other"]}}}`,
	}
	for i, o := range objects {
		s.Expect(s.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patches[i])))).To(Succeed())
	}
}

func metaLen(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.SecretList:
		return len(l.Items)
	case *appsv1.DeploymentList:
		return len(l.Items)
	case *appsv1.StatefulSetList:
		return len(l.Items)
	}
	return 0
}

func (s *tenancy) readiness() string { return get(s.t, s.health, "/readyz/policies") }

// condition returns a function that returns the condition Ready of an object.
func (s *tenancy) condition(o cluster.Summarized) func() metav1.Condition {
	return func() metav1.Condition {
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return metav1.Condition{}
		}
		if c := meta.FindStatusCondition(*o.CommonStatus().Conditions, v1alpha1.ConditionReady); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
}

// An object makes the operator use its permissions for the author. Only the policies check that
// the author has them.
func TestWithoutAPolicyTheOperatorDoesNothingForTenants(t *testing.T) {
	size.NotInTest(t, "it takes a cluster and operators of its own")
	t.Parallel()
	s := newTenancy(t)
	everything := ConsistOf("message", "copies", "apps", "notebooks")
	s.Eventually(s.done(s.use())).Should(everything)

	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "appservices.bongsu.io"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "secretshares.bongsu.io"}}
	for name, tc := range map[string]struct {
		object client.Object
		patch  string // empty: delete the object
	}{
		"a policy is deleted":  {policy, ""},
		"a binding is deleted": {binding, ""},
		"a policy fails open":  {policy, `{"spec":{"failurePolicy":"Ignore"}}`},
		"a binding only warns": {binding, `{"spec":{"validationActions":["Warn"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			key := client.ObjectKeyFromObject(tc.object)
			g.Expect(s.Client.Get(t.Context(), key, tc.object)).To(Succeed())
			before := tc.object.DeepCopyObject().(client.Object)
			if tc.patch == "" {
				g.Expect(s.Client.Delete(t.Context(), tc.object)).To(Succeed())
			} else {
				g.Expect(s.Client.Patch(t.Context(), tc.object, client.RawPatch("application/merge-patch+json", []byte(tc.patch)))).To(Succeed())
			}
			g.Eventually(s.readiness).ShouldNot(Equal("ok"))
			namespace := s.use()
			written := s.written(namespace)
			s.expectMessageFor("Administrator")
			s.expectMessageFor("Tenant") // its Alarm was in force, and the grace time lasts
			g.Consistently(s.done(namespace), "2s").Should(BeEmpty())

			if tc.patch == "" {
				before.SetUID("")
				before.SetResourceVersion("")
				g.Expect(s.Client.Create(t.Context(), before)).To(Succeed())
			} else {
				before.SetResourceVersion(tc.object.GetResourceVersion())
				g.Expect(s.Client.Update(t.Context(), before)).To(Succeed())
			}
			g.Eventually(s.readiness).WithTimeout(time.Minute).Should(Equal("ok"))
			for _, o := range written {
				g.Eventually(s.condition(o)).Should(And(
					HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonUnchecked), HaveField("Message", ContainSubstring("change its spec")),
				), "%T", o)
			}
			g.Expect(s.done(namespace)(g)).To(BeEmpty())
			s.rewrite(t, written)
			g.Eventually(s.done(namespace)).Should(ConsistOf("copies", "apps", "notebooks")) // the Event was not evaluated
			g.Eventually(s.done(s.use())).Should(everything)
		})
	}

	t.Run("objects say what to do after the grace time", func(t *testing.T) {
		g := NewWithT(t)
		earlier := s.use()
		deleted := cluster.Manifest(t, "AppService", earlier, "deleted", "size: 1\nbackup: {exec: {command: [save]}}")
		deleted.SetFinalizers([]string{v1alpha1.FinalizerBackup})
		deleted.SetAnnotations(map[string]string{v1alpha1.AnnotationAbandonBackup: "true"}) // it waits for the policies too
		g.Expect(s.Client.Create(t.Context(), deleted)).To(Succeed())
		g.Eventually(s.done(earlier)).Should(ConsistOf("message", "copies", "apps", "notebooks"))
		app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: earlier, Name: "deleted"}}
		g.Eventually(s.condition(app)).Should(HaveField("Type", v1alpha1.ConditionReady))
		g.Expect(s.Client.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: binding.ObjectMeta})).To(Succeed())
		g.Eventually(s.readiness).ShouldNot(Equal("ok"))
		namespace := s.use()
		g.Expect(s.Client.Delete(t.Context(), deleted)).To(Succeed())
		for _, o := range []cluster.Summarized{
			&v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "it"}},
			&v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "it"}},
			&v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: "it"}},
			&v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: earlier, Name: "it"}},
			&v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: earlier, Name: "it"}},
		} {
			g.Eventually(s.condition(o)).WithTimeout(policies.Grace+time.Minute).Should(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonPolicyMissing),
				HaveField("Message", ContainSubstring("ValidatingAdmissionPolicyBinding secretshares.bongsu.io is missing")),
			), "%T", o)
		}
		g.Eventually(s.condition(app)).Should(And(
			HaveField("Reason", v1alpha1.ReasonPolicyMissing), HaveField("Message", ContainSubstring("the app is deleted after its backup, which waits for the policies")),
		))
		for _, o := range s.written(namespace) {
			g.Eventually(s.condition(o)).Should(HaveField("Reason", v1alpha1.ReasonUnchecked), "%T", o)
		}
		s.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "it"}})
		g.Expect(s.done(namespace)(g)).To(BeEmpty())
		namespace = s.use()
		s.expectMessageFor("Administrator")
		g.Expect(s.done(namespace)(g)).To(BeEmpty())
		g.Expect(s.operator.Out.String()).NotTo(ContainSubstring(s.note("Tenant")))
	})
}

// No operator sees that the policies are missing, but their UIDs show it.
func TestObjectsThatWereWrittenWithoutPoliciesAndOperatorAreUnchecked(t *testing.T) {
	size.NotInTest(t, "it takes a cluster and operators of its own")
	t.Parallel()
	s := newTenancy(t)
	everything := ConsistOf("message", "copies", "apps", "notebooks")
	s.Eventually(s.done(s.use())).Should(everything)
	trusted := s.written(s.use())
	for _, o := range trusted {
		s.Eventually(s.condition(o)).Should(HaveField("ObservedGeneration", BeEquivalentTo(1)), "%T", o)
	}
	s.Expect(s.operator.Stop()).To(Succeed())

	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "appservices.bongsu.io"}}
	s.Expect(s.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(Succeed())
	s.Expect(s.Client.Delete(t.Context(), policy)).To(Succeed())
	namespace := s.use()
	written := s.written(namespace)
	s.rewrite(t, trusted[:1]) // which also was in force before
	written = append(written, trusted[0])
	policy.SetUID("")
	policy.SetResourceVersion("")
	s.Expect(s.Client.Create(t.Context(), policy)).To(Succeed())

	start := func() {
		s.operator = s.StartOperator(t, func(o *options.Options) { o.HealthAddress = s.health })
		s.Eventually(s.readiness).WithTimeout(time.Minute).Should(Equal("ok"))
	}
	start()
	for _, o := range written {
		s.Eventually(s.condition(o)).Should(HaveField("Reason", v1alpha1.ReasonUnchecked), "%T", o)
	}
	for _, o := range trusted[1:] {
		s.Expect(s.condition(o)().Reason).NotTo(Equal(v1alpha1.ReasonUnchecked), "%T", o)
	}
	s.Expect(s.operator.Stop()).To(Succeed())
	start() // the record has the new UID, and the objects have their marks
	s.Eventually(s.done(s.use())).Should(everything)
	s.Expect(s.done(namespace)(s)).NotTo(ContainElements("copies"))
	s.Expect(s.done(namespace)(s)).NotTo(ContainElements("apps"))
	s.rewrite(t, written[:5])
	s.Eventually(s.done(namespace)).Should(ContainElements("copies", "apps", "notebooks"))
}
