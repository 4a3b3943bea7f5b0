package alarms_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

func changesOf(resource, rest string) string {
	return "changes: [{resource: {" + resource + "}" + rest + "}]" + tail
}

func TestAnAlarmSaysWhyItsResourceIsNotWatched(t *testing.T) {
	s := newScene(t)
	for name, tc := range map[string]struct{ spec, reason, want string }{
		"no-kind":     {changesOf("apiGroup: apps, resource: deployment", ""), v1alpha1.ReasonKindNotFound, "did you mean deployments?"},
		"no-group":    {changesOf("apiGroup: example.com, resource: widgets", ""), v1alpha1.ReasonKindNotFound, "example.com"},
		"no-right":    {changesOf("apiGroup: storage.k8s.io, resource: csistoragecapacities", ""), v1alpha1.ReasonForbidden, `create a ClusterRole with the label bongsu.io/aggregate-to-alarms: "true"`},
		"no-scope":    {changesOf("resource: nodes", ""), v1alpha1.ReasonInvalidMatch, "use a ClusterAlarm"},
		"no-path":     {changesOf("resource: pods", ", fields: [spec..x]"), v1alpha1.ReasonInvalidMatch, "spec.changes[0].fields[0] is invalid: column 6"},
		"no-values":   {changesOf("resource: secrets", ", fields: [data]"), v1alpha1.ReasonInvalidMatch, "values of Secrets are never read"},
		"no-cel":      {changesOf("resource: pods", ", expression: 'object.spec.x ='"), v1alpha1.ReasonInvalidExpression, "spec.changes[0].expression"},
		"state-kind":  {"states: [{resource: {apiGroup: apps, resource: deployment}, expression: 'true'}]" + tail, v1alpha1.ReasonKindNotFound, "did you mean deployments?"},
		"state-scope": {"states: [{resource: {resource: nodes}, expression: 'true'}]" + tail, v1alpha1.ReasonInvalidMatch, "use a ClusterAlarm"},
		"state-cel":   {"states: [{resource: {resource: pods}, expression: 'object.spec.x ='}]" + tail, v1alpha1.ReasonInvalidExpression, "spec.states[0].expression is invalid at column 15"},
		"no-variable": {changesOf("resource: pods", ", expression: 'event.count > 1'"), v1alpha1.ReasonInvalidExpression, "undeclared reference to 'event'"},
	} {
		s.create("Alarm", name, tc.spec)
		NewWithT(t).Expect(s.ExpectNotReady(t, s.alarm(name), tc.reason)).To(ContainSubstring(tc.want), name)
	}
}

func TestAResourceIsWatchedAsSoonAsTheOperatorIsAllowedTo(t *testing.T) {
	s := newScene(t)
	s.create("Alarm", "it", changesOf("apiGroup: storage.k8s.io, resource: csistoragecapacities", ""))
	s.ExpectNotReady(t, s.alarm("it"), v1alpha1.ReasonForbidden)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: map[string]string{"bongsu.io/aggregate-to-alarms": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csistoragecapacities"}, Verbs: []string{"list", "watch"}}},
	}
	NewWithT(t).Expect(s.Client.Create(t.Context(), role)).To(Succeed())
	s.AllowChanges(t, role.Name)
	s.ExpectReady(t, s.alarm("it"))
}

// unwatchable are the resources of Kubernetes that the operator is not allowed to watch after an
// installation, with the reason.
var unwatchable = map[string]string{
	"configmaps":                                 "list includes the contents, so that a value allows it",
	"csistoragecapacities.storage.k8s.io":        "drivers write it whenever free space changes",
	"endpoints":                                  "it changes with every pod, and the API refuses it",
	"endpointslices.discovery.k8s.io":            "it changes with every pod, and the API refuses it",
	"events":                                     "spec.match is for Events, and the API refuses it",
	"events.events.k8s.io":                       "spec.match is for Events, and the API refuses it",
	"leases.coordination.k8s.io":                 "it is renewed every few seconds, and the API refuses it",
	"podcertificaterequests.certificates.k8s.io": "kubelets create it for each pod, and it ends soon",
	"secrets":                                    "the permission to list it includes the values",
}

func TestEachResourceOfKubernetesCanBeWatchedOrHasAReason(t *testing.T) {
	s := newScene(t)
	var role rbacv1.ClusterRole
	NewWithT(t).Expect(s.Client.Get(t.Context(), client.ObjectKey{Name: "bongsu-changes-builtin"}, &role)).To(Succeed())
	allowed := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			allowed[alarm.Resource{Group: rule.APIGroups[0], Resource: resource}.Stream()] = true
		}
	}
	lister, err := discovery.NewDiscoveryClientForConfig(s.RESTConfig())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	lists, err := lister.ServerPreferredResources()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	served := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if strings.Contains(gv.Group, ".") && !strings.HasSuffix(gv.Group, ".k8s.io") {
			continue // of a CustomResourceDefinition
		}
		for i := range list.APIResources {
			if verbs := list.APIResources[i].Verbs; slices.Contains(verbs, "list") && slices.Contains(verbs, "watch") {
				served[alarm.Resource{Group: gv.Group, Resource: list.APIResources[i].Name}.Stream()] = true
			}
		}
	}
	for resource := range served {
		if allowed[resource] == (unwatchable[resource] != "") {
			t.Errorf("%s is allowed: %v: add it to config/rbac/changes.yaml, or a reason to unwatchable", resource, allowed[resource])
		}
	}
	for resource := range allowed {
		if !served[resource] {
			t.Errorf("%s is in config/rbac/changes.yaml, but Kubernetes does not serve it", resource)
		}
	}
	for resource, reason := range unwatchable {
		if !served[resource] {
			t.Errorf("%s (%s) is not served", resource, reason)
		}
	}
}

func TestAChangeOfANamespaceIsSentOnce(t *testing.T) {
	s, other := newScene(t), newScene(t)
	s.AllowChanges(t, "bongsu-changes-configmaps")
	for _, scene := range []*scene{s, other} {
		scene.create("Alarm", "it", changesOf("resource: configmaps", ", fields: [data.size]"))
		scene.ExpectReady(t, scene.alarm("it"))
	}
	g := NewWithT(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}, Data: map[string]string{"size": "1"}}
	g.Expect(s.Client.Create(t.Context(), object)).To(Succeed())
	for _, data := range []map[string]string{{"size": "1", "color": "red"}, {"size": "2", "color": "red"}, {"size": "2"}} {
		object.Data = data
		g.Expect(s.Client.Update(t.Context(), object)).To(Succeed())
	}
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(1))
	// A later change is read after all of these.
	object.Data = map[string]string{"size": "3"}
	g.Expect(s.Client.Update(t.Context(), object)).To(Succeed())
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(2))
	g.Expect(other.delivered("it")()).To(BeZero())
}

func TestAStateOfANamespaceIsSentOnce(t *testing.T) {
	s, other := newScene(t), newScene(t)
	s.AllowChanges(t, "bongsu-changes-configmaps")
	for _, scene := range []*scene{s, other} {
		scene.create("Alarm", "it", "states: [{resource: {resource: configmaps}, expression: 'object.data.phase == \"Bad\"', forSeconds: 1}]"+tail)
		scene.ExpectReady(t, scene.alarm("it"))
	}
	g := NewWithT(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}, Data: map[string]string{"phase": "Bad"}}
	g.Expect(s.Client.Create(t.Context(), object)).To(Succeed())
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(1))
	object.Data["color"] = "red" // it still holds
	g.Expect(s.Client.Update(t.Context(), object)).To(Succeed())
	object.Data["phase"] = "Good"
	g.Expect(s.Client.Update(t.Context(), object)).To(Succeed())
	later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "later"}, Data: map[string]string{"phase": "Bad"}}
	g.Expect(s.Client.Create(t.Context(), later)).To(Succeed())
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(2)) // the updates before are read
	object.Data["phase"] = "Bad"
	g.Expect(s.Client.Update(t.Context(), object)).To(Succeed())
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(3))
	g.Expect(other.delivered("it")()).To(BeZero())
}

// The alarm is not in force before.
func TestAStateIsSentToAReceiverThatIsCreatedLater(t *testing.T) {
	s := newScene(t)
	s.AllowChanges(t, "bongsu-changes-configmaps")
	g := NewWithT(t)
	g.Expect(s.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}, Data: map[string]string{"phase": "Bad"}})).To(Succeed())
	s.create("Alarm", "it", "states: [{resource: {resource: configmaps}, expression: 'object.data.phase == \"Bad\"', forSeconds: 1}]\nreceivers: [{name: later}]")
	s.ExpectNotReady(t, s.alarm("it"), v1alpha1.ReasonReceiverNotFound)
	s.create("AlarmReceiver", "later", "log: {}")
	g.Eventually(s.delivered("it")).Should(BeEquivalentTo(1))
}
