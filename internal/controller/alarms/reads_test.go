package alarms_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// createTemplate creates a PodTemplate, of a kind that the operator does not read for every alarm.
func (s *scene) createTemplate(name, team string) {
	s.t.Helper()
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"team": team}}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}}
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), template)).To(Succeed())
}

// happenTo creates an Event about a PodTemplate. It has a version that does not exist.
func (s *scene) happenTo(template string) {
	s.t.Helper()
	NewWithT(s.t).Expect(s.Client.Create(s.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.namespace, GenerateName: template + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v9", Kind: "PodTemplate", Namespace: s.namespace, Name: template},
		Type:           corev1.EventTypeWarning, Reason: "Broken", Message: "broken", Count: 1,
	})).To(Succeed())
}

func (s *scene) status(name string) v1alpha1.AlarmStatus {
	a := s.alarm(name)
	_ = s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(a), a)
	return a.Status
}

// Another alarm, whose author may not read PodTemplates, gets nothing of them.
func TestObjectsOfAKindThatAnAdministratorAllowsAreRead(t *testing.T) {
	s, g := newScene(t), NewWithT(t)
	const selects = "match: [{kinds: [PodTemplate], objectSelector: {matchLabels: {team: shop}}}]" + tail
	s.create("Alarm", "it", "readObjects: [{resource: podtemplates}]\n"+selects)
	s.createTemplate("gear", "shop")
	g.Expect(s.ExpectNotReady(t, s.alarm("it"), v1alpha1.ReasonForbidden)).To(Equal(
		"the operator is not allowed to get podtemplates: create a ClusterRole with the label bongsu.io/aggregate-to-alarms: \"true\". Its rule is apiGroups: [\"\"], resources: [\"podtemplates\"], verbs: [get]"))
	s.create("Alarm", "other", selects)
	s.ExpectReady(t, s.alarm("other"))
	g.Expect(s.Ready(t.Context(), s.alarm("other")).Message).To(ContainSubstring("Bongsu does not read objects of kind PodTemplate, so no Event about them matches: name their resource in spec.readObjects, which an administrator must allow"))
	s.happenTo("gear")
	for _, name := range []string{"it", "other"} {
		g.Eventually(func() int64 { return s.status(name).Unresolved }).Should(BeEquivalentTo(1), name)
	}

	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: map[string]string{"bongsu.io/aggregate-to-alarms": "true"}},
		Rules:      []rbacv1.PolicyRule{cluster.Rule("", "podtemplates", "get")},
	}
	g.Expect(s.Client.Create(t.Context(), role)).To(Succeed())
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), role) })
	s.AllowChanges(t, role.Name)
	s.ExpectReady(t, s.alarm("it"))
	g.Expect(s.Ready(t.Context(), s.alarm("it")).Message).To(HavePrefix("in force; status.unresolved counts Events that were not sent"))
	s.createTemplate("cog", "bank")
	s.happenTo("gear")
	s.happenTo("cog")
	s.happenTo("gone")
	g.Eventually(func() int64 { return s.status("it").Unresolved }).Should(BeEquivalentTo(2))
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(1))
	g.Eventually(func() int64 { return s.status("other").Unresolved }).Should(BeEquivalentTo(4))
	g.Expect(s.delivered("other")()).To(BeZero())
}

func TestAnAlarmSaysWhyObjectsAreNotRead(t *testing.T) {
	s := newScene(t)
	for name, tc := range map[string]struct{ resource, reason, want string }{
		"no-kind":  {"apiGroup: apps, resource: deployment", v1alpha1.ReasonKindNotFound, "did you mean deployments?"},
		"no-right": {"resource: configmaps", v1alpha1.ReasonForbidden, "the operator is not allowed to get configmaps"},
		"no-scope": {"resource: nodes", v1alpha1.ReasonInvalidMatch, "use a ClusterAlarm"},
		"no-get":   {"apiGroup: authorization.k8s.io, resource: subjectaccessreviews", v1alpha1.ReasonInvalidMatch, "the API server does not support get for it"},
	} {
		s.create("Alarm", name, "match: [{}]\nreadObjects: [{"+tc.resource+"}]"+tail)
		NewWithT(t).Expect(s.ExpectNotReady(t, s.alarm(name), tc.reason)).To(ContainSubstring(tc.want), name)
	}
}

// The operator reads objects for the author of the alarm.
func TestAUserWhoMayNotGetAResourceCannotNameItInReadObjects(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	resources := []string{"widgets", "gadgets", "configmaps", "namespaces", "limitranges", "resourcequotas", "serviceaccounts", "bindings"}
	var named []string
	for _, resource := range resources {
		named = append(named, "{resource: "+resource+"}")
	}
	spec := "match: [{kinds: [Widget]}]\nreadObjects: [" + strings.Join(named, ", ") + "]" + tail
	for kind, in := range map[string]string{"Alarm": namespace, "ClusterAlarm": ""} {
		for i, missing := range resources {
			t.Run(kind+" "+missing, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				allowed := cluster.Rule("", "pods", "get")
				allowed.Resources = append(append([]string{}, resources[:i]...), resources[i+1:]...)
				elsewhere := cluster.Rule("", missing, "list", "watch")
				user := clientFor(t, c, in, listEvents(), allowed, elsewhere)
				scope := map[string]string{"Alarm": " in namespace " + namespace + " to create or change an Alarm", "ClusterAlarm": " in all namespaces to create or change a ClusterAlarm"}[kind]
				mine := cluster.Manifest(t, kind, in, namespace+"-"+missing, spec)
				g.Expect(user.Create(t.Context(), mine.DeepCopy())).To(forbidden("you must be allowed to get " + missing + scope + " that names it in spec.readObjects"))
				plain := cluster.Manifest(t, kind, in, namespace+"-"+missing, "match: [{kinds: [Widget]}]"+tail)
				g.Expect(user.Create(t.Context(), plain)).To(Succeed())
				adds := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"readObjects":[{"apiGroup":"","resource":"`+missing+`"}]}}`))
				g.Expect(user.Patch(t.Context(), plain, adds)).To(forbidden("you must be allowed to get " + missing))
				g.Expect(c.Client.Delete(t.Context(), plain)).To(Succeed())
				allowed.Resources = resources
				g.Expect(clientFor(t, c, in, listEvents(), allowed).Create(t.Context(), mine)).To(Succeed())
				g.Expect(c.Client.Delete(t.Context(), mine)).To(Succeed())
			})
		}
	}
}
