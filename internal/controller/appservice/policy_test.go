package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// author is a user who may write AppServices in a namespace, and what else the rules
// say.
func author(t *testing.T, c *cluster.Cluster, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	rules = append(rules, cluster.Rule("bongsu.io", "appservices", "get", "create", "update", "patch"), cluster.Rule("bongsu.io", "appservices/scale", "get", "update"))
	user, err := cluster.ClientFor(c.User(t, namespace, rules...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return user
}

func forbidden(text string) gomegatypes.GomegaMatcher {
	return And(MatchError(ContainSubstring(text)), WithTransform(apierrors.IsForbidden, BeTrue()))
}

// everything asks for each thing that takes a right.
const everything = `
size: 1
serviceAccountName: trainer
ports: [{name: http, containerPort: 80}]
disruptionBudget: {maxUnavailable: 1}
healthCheck: {exec: {command: [a]}, remedy: Restart}
backup: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}}
`

func TestAnAppServiceNeedsThePermissionsThatItMakesTheOperatorUse(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	account := cluster.Rule("", "serviceaccounts/token", "create")
	account.ResourceNames = []string{"trainer"}
	all := map[string]rbacv1.PolicyRule{
		"pods": cluster.Rule("", "pods", "create"), "deployments": cluster.Rule("apps", "deployments", "create"),
		"services": cluster.Rule("", "services", "create"), "exec": cluster.Rule("", "pods/exec", "create"),
		"jobs": cluster.Rule("batch", "jobs", "create"), "eviction": cluster.Rule("", "pods/eviction", "create"), "account": account,
		"budgets": cluster.Rule("policy", "poddisruptionbudgets", "create"),
	}
	rules := func(lacking string) []rbacv1.PolicyRule {
		var rules []rbacv1.PolicyRule
		for name, rule := range all {
			if name != lacking {
				rules = append(rules, rule)
			}
		}
		return rules
	}
	create := func(user client.Client, spec string) error {
		return user.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, namespace, "web", spec), client.DryRunAll)
	}
	allowed := author(t, c, namespace, rules("")...)
	NewWithT(t).Expect(create(allowed, everything)).To(Succeed())
	for lacking, tc := range map[string]struct{ with, without, want string }{
		"pods":        {"size: 1", "", "you must be allowed to create pods in namespace " + namespace},
		"deployments": {"size: 1", "", "you must be allowed to create deployments.apps in namespace " + namespace},
		"services":    {"size: 1\nservice: {type: Headless}", "size: 1\nports: [{name: a, containerPort: 1}]\nservice: {type: None}", "spec.ports: you must be allowed to create services in namespace " + namespace},
		"budgets":     {"size: 1\ndisruptionBudget: {minAvailable: 0}", "size: 1", "spec.disruptionBudget: you must be allowed to create poddisruptionbudgets.policy in namespace " + namespace},
		"exec":        {"size: 1\nbackup: {exec: {command: [a]}}", "size: 1\nhealthCheck: {httpGet: {port: 80}}", "you must be allowed to create pods/exec in namespace " + namespace},
		"jobs":        {"size: 1\nbackup: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}}", "size: 1\nbackup: {exec: {command: [a]}}", "spec.backup.jobTemplate: you must be allowed to create jobs.batch in namespace " + namespace},
		"eviction":    {"size: 1\nhealthCheck: {httpGet: {port: 80}, remedy: Restart}", "size: 1\nhealthCheck: {httpGet: {port: 80}}", "spec.healthCheck.remedy: you must be allowed to delete pods, or to create pods/eviction, in namespace " + namespace},
		"account":     {"size: 1\nserviceAccountName: trainer", "size: 1\nserviceAccountName: default", "spec.serviceAccountName: you must be allowed to create tokens (serviceaccounts/token) for service account " + namespace + "/trainer"},
	} {
		t.Run("without the right to "+lacking, func(t *testing.T) {
			g := NewWithT(t)
			user := author(t, c, namespace, rules(lacking)...)
			g.Expect(create(user, tc.with)).To(forbidden(tc.want))
			g.Expect(create(user, everything)).To(forbidden(tc.want))
			g.Expect(create(allowed, tc.with)).To(Succeed())
			if tc.without != "" {
				g.Expect(create(user, tc.without)).To(Succeed())
			}
		})
	}
}

// Commands and requests through the API server are different permissions. One does not replace
// the other.
func TestACheckThroughTheAPIServerNeedsTheRightToProxy(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := c.Namespace(t, nil)
	with := func(rules ...rbacv1.PolicyRule) client.Client {
		return author(t, c, namespace, append(rules, cluster.Rule("", "pods", "create"), cluster.Rule("apps", "deployments", "create"))...)
	}
	try := func(user client.Client, check string) error {
		app := cluster.Manifest(t, v1alpha1.KindAppService, namespace, "web", "size: 1\nhealthCheck: {"+check+"}")
		return user.Create(t.Context(), app, client.DryRunAll)
	}
	const direct, proxied, command = "httpGet: {port: 80}", "httpGet: {port: 80}, transport: APIServer", "exec: {command: [a]}"
	exec, proxy := with(cluster.Rule("", "pods/exec", "create")), with(cluster.Rule("", "pods/proxy", "get"))
	other := with(cluster.Rule("", "pods/proxy", "create", "update", "patch", "delete"), cluster.Rule("", "pods", "get"))
	want := "spec.healthCheck.transport: you must be allowed to get pods/proxy in namespace " + namespace
	for name, user := range map[string]client.Client{"exec": exec, "other verbs": other} {
		g.Expect(try(user, proxied)).To(forbidden(want), name)
		g.Expect(try(user, direct)).To(Succeed(), name)
	}
	g.Expect(try(proxy, proxied)).To(Succeed())
	g.Expect(try(proxy, command)).To(forbidden("you must be allowed to create pods/exec in namespace " + namespace))
	g.Expect(try(exec, command)).To(Succeed())
	g.Expect(try(exec, direct+", transport: PodIP")).To(Succeed())
}

// A user who may only change AppServices can size and stop them, as an autoscaler does, but
// cannot start or change them.
func TestSizingAndStoppingNeedNoOtherRight(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	namespace := c.Namespace(t, nil)
	g.Expect(c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, namespace, "web", everything))).To(Succeed())
	user := author(t, c, namespace)
	app := cluster.Manifest(t, v1alpha1.KindAppService, namespace, "web", "")
	patch := func(text string) error {
		return user.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	g.Expect(patch(`{"spec": {"size": 2}}`)).To(Succeed())
	g.Expect(patch(`{"spec": {"suspend": true}}`)).To(Succeed())
	g.Expect(patch(`{"spec": {"size": 3}}`)).To(Succeed())
	g.Expect(patch(`{"metadata": {"annotations": {"bongsu.io/abandon-backup": "true"}}}`)).To(Succeed())
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	g.Expect(user.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(scale))).To(Succeed())
	for _, text := range []string{`{"spec": {"suspend": false}}`, `{"spec": {"image": "other"}}`, `{"spec": {"healthCheck": {"exec": {"command": ["b"]}}}}`} {
		g.Expect(patch(text)).To(forbidden("you must be allowed to create"), text)
	}
}
