package alarms_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const (
	anything = "match: [{}]" + tail
	onJobs   = "match: [{kinds: [Job]}]" + tail
)

// readable are the objects whose labels and annotations messages can contain.
var readable = map[string]rbacv1.PolicyRule{
	"Pod":                     cluster.Rule("", "pods", "get"),
	"PersistentVolumeClaim":   cluster.Rule("", "persistentvolumeclaims", "get"),
	"ReplicationController":   cluster.Rule("", "replicationcontrollers", "get"),
	"Service":                 cluster.Rule("", "services", "get"),
	"DaemonSet":               cluster.Rule("apps", "daemonsets", "get"),
	"Deployment":              cluster.Rule("apps", "deployments", "get"),
	"ReplicaSet":              cluster.Rule("apps", "replicasets", "get"),
	"StatefulSet":             cluster.Rule("apps", "statefulsets", "get"),
	"HorizontalPodAutoscaler": cluster.Rule("autoscaling", "horizontalpodautoscalers", "get"),
	"CronJob":                 cluster.Rule("batch", "cronjobs", "get"),
	"Job":                     cluster.Rule("batch", "jobs", "get"),
	"Ingress":                 cluster.Rule("networking.k8s.io", "ingresses", "get"),
	"PodDisruptionBudget":     cluster.Rule("policy", "poddisruptionbudgets", "get"),
	// Cluster-scoped kinds:
	"Node":             cluster.Rule("", "nodes", "get"),
	"PersistentVolume": cluster.Rule("", "persistentvolumes", "get"),
}

// clientFor returns a user who may write alarms, and what else the rules say.
func clientFor(t *testing.T, c *cluster.Cluster, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	manage := cluster.Rule("bongsu.io", "alarms", "create", "update", "patch")
	if namespace == "" {
		manage.Resources = []string{"clusteralarms"}
	}
	user, err := cluster.ClientFor(c.User(t, namespace, append(rules, manage)...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return user
}

func listEvents() rbacv1.PolicyRule { return cluster.Rule("events.k8s.io", "events", "list") }

func listPods() rbacv1.PolicyRule { return cluster.Rule("", "pods", "list") }

// permissionsBut returns what an alarm on anything needs, but for objects of one kind.
func permissionsBut(kind string) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{listEvents(), listPods()}
	for other, rule := range readable {
		if other != kind {
			rules = append(rules, rule)
		}
	}
	return rules
}

func forbidden(text string) types.GomegaMatcher {
	return And(MatchError(ContainSubstring(text)), WithTransform(apierrors.IsForbidden, BeTrue()))
}

// An alarm makes the operator read Events for its author.
func TestAUserWhoMayNotListEventsCannotHaveThemSent(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for name, tc := range map[string]struct{ kind, namespace, want string }{
		"of a namespace": {"Alarm", namespace, "you must be allowed to list events.events.k8s.io in namespace " + namespace},
		"of the cluster": {"ClusterAlarm", "", "you must be allowed to list events.events.k8s.io in all namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			weak := clientFor(t, c, tc.namespace)
			g.Expect(weak.Create(t.Context(), cluster.Manifest(t, tc.kind, tc.namespace, "mine", onJobs))).To(forbidden(tc.want))

			strong := clientFor(t, c, tc.namespace, listEvents(), listPods(), readable["Job"])
			mine := cluster.Manifest(t, tc.kind, tc.namespace, "mine", onJobs)
			g.Expect(strong.Create(t.Context(), mine)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })

			wider := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"match":[{"kinds":["Pod"]}]}}`))
			g.Expect(weak.Patch(t.Context(), mine.DeepCopy(), wider)).To(forbidden(tc.want))
			g.Expect(strong.Patch(t.Context(), mine.DeepCopy(), wider)).To(forbidden("you must be allowed to get pods in "))
			label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			g.Expect(weak.Patch(t.Context(), mine.DeepCopy(), label)).To(Succeed(), "what does not change the spec needs no right to Events")
		})
	}
}

func TestAUserCannotAcknowledgeInTheNameOfAnother(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for kind, in := range map[string]string{"Alarm": namespace, "ClusterAlarm": ""} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			user := clientFor(t, c, in, listEvents(), listPods(), readable["Job"])
			var review authenticationv1.SelfSubjectReview
			g.Expect(user.Create(t.Context(), &review)).To(Succeed())
			acknowledgements := func(by ...string) client.Patch {
				var all []string
				for i, name := range by {
					all = append(all, fmt.Sprintf(`{"group":"%032d","since":"2026-11-24T12:00:00Z","time":"2026-11-24T12:05:00Z","by":%q}`, i, name))
				}
				return client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"acknowledgements":[`+strings.Join(all, ",")+`]}}`))
			}
			mine := cluster.Manifest(t, kind, in, namespace, onJobs)
			g.Expect(user.Create(t.Context(), mine)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })
			name := review.Status.UserInfo.Username
			g.Expect(user.Patch(t.Context(), mine, acknowledgements("ana"))).To(forbidden("spec.acknowledgements: by must be your own user name, " + name))
			g.Expect(user.Patch(t.Context(), mine, acknowledgements(name))).To(Succeed())
			g.Expect(c.Client.Patch(t.Context(), mine, acknowledgements(name))).To(Succeed(), "an entry that stays")
			g.Expect(c.Client.Patch(t.Context(), mine, acknowledgements(name, name))).To(forbidden("by must be your own user name"))
			g.Expect(c.Client.Patch(t.Context(), mine, acknowledgements())).To(Succeed())

			restored := cluster.Manifest(t, kind, in, namespace+"-2", onJobs+"\nacknowledgements: [{group: '"+strings.Repeat("0", 32)+"', since: 2026-11-24T12:00:00Z, time: 2026-11-24T12:05:00Z, by: ana}]")
			g.Expect(user.Create(t.Context(), restored)).To(Succeed(), "from a backup")
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), restored) })
		})
	}
}

// Messages about these kinds contain the cause that their pods show.
func TestAUserWhoMayNotListPodsCannotReceiveTheirCauses(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	rules := []rbacv1.PolicyRule{listEvents()}
	for _, rule := range readable {
		rules = append(rules, rule)
	}
	for kind, in := range map[string]string{"Alarm": namespace, "ClusterAlarm": ""} {
		user := clientFor(t, c, in, rules...)
		for _, spec := range []string{"{}", "{kinds: [Deployment]}", "{kinds: [Pod, ReplicaSet]}", "{kinds: [StatefulSet]}", "{kinds: [DaemonSet]}", "{kinds: [Job]}"} {
			g := NewWithT(t)
			err := user.Create(t.Context(), cluster.Manifest(t, kind, in, "mine", "match: ["+spec+"]"+tail))
			g.Expect(err).To(forbidden("you must be allowed to list pods in "), spec)
		}
		others := cluster.Manifest(t, kind, in, "others", "match: [{kinds: [Pod, Service]}]"+tail)
		NewWithT(t).Expect(user.Create(t.Context(), others)).To(Succeed())
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), others) })
	}
}

// An alarm also reads the objects that Events regard. A user who may create Events chooses
// these objects.
func TestAUserWhoMayNotGetObjectsCannotReceiveThem(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for kind, rule := range readable {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			want := "you must be allowed to get " + rule.Resources[0]
			ofCluster := clientFor(t, c, "", permissionsBut(kind)...)
			for _, spec := range []string{
				anything,
				"match: [{kinds: [Job]}, {kinds: [" + kind + "]}]" + tail,
				"match: [{kinds: [Job]}]\ngroup: {by: [regarding.name]}\nresolve: {match: [{kinds: [" + kind + "]}]}" + tail,
				"match: [{kinds: [Job]}]\ngroup: {by: [regarding.name]}\nresolve: {match: [{}]}" + tail,
			} {
				g.Expect(ofCluster.Create(t.Context(), cluster.Manifest(t, "ClusterAlarm", "", "mine", spec))).To(forbidden(want))
			}
			if kind == "Node" || kind == "PersistentVolume" { // neither an Alarm nor a namespaceSelector sees those
				selecting := cluster.Manifest(t, "ClusterAlarm", "", namespace+"-"+strings.ToLower(kind), anything+"\nnamespaceSelector: {}")
				g.Expect(ofCluster.Create(t.Context(), selecting)).To(Succeed())
				t.Cleanup(func() { _ = c.Client.Delete(context.Background(), selecting) })
				all := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespaceSelector":null}}`))
				g.Expect(ofCluster.Patch(t.Context(), selecting.DeepCopy(), all)).To(forbidden(want))
				return
			}
			ofNamespace := clientFor(t, c, namespace, permissionsBut(kind)...)
			g.Expect(ofNamespace.Create(t.Context(), cluster.Manifest(t, "Alarm", namespace, "mine", anything))).To(forbidden(want))
		})
	}
	t.Run("a user with all permissions", func(t *testing.T) {
		user := clientFor(t, c, namespace, permissionsBut("")...)
		NewWithT(t).Expect(user.Create(t.Context(), cluster.Manifest(t, "Alarm", namespace, "mine", anything))).To(Succeed())
	})
}

// The policy asks for what the operator looks up: no more, no less.
func TestThePolicyDemandsTheKindsThatAreRead(t *testing.T) {
	var want []string
	for _, kind := range enrich.Kinds() {
		want = append(want, kind.Kind)
	}
	NewWithT(t).Expect(slices.Collect(maps.Keys(readable))).To(ConsistOf(want))
}

// For spec.changes and spec.states, the operator reads objects for the author of the alarm.
func TestAUserWhoMayNotListAResourceCannotHaveItsChangesSent(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	resources := []string{"pods", "services", "configmaps", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims", "limitranges",
		"resourcequotas", "serviceaccounts", "replicationcontrollers", "podtemplates", "widgets", "gadgets", "secrets", "bindings"}
	var changes, states []string
	for i, resource := range resources {
		if i%2 == 0 {
			changes = append(changes, "{resource: {resource: "+resource+"}, fields: [metadata.labels]}")
		} else {
			states = append(states, "{resource: {resource: "+resource+"}, expression: has(object.metadata.labels.bad)}")
		}
	}
	spec := "changes: [" + strings.Join(changes, ", ") + "]\nstates: [" + strings.Join(states, ", ") + "]" + tail
	for i, missing := range resources {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			allowed := cluster.Rule("", "pods", "list")
			allowed.Resources = slices.Delete(slices.Clone(resources), i, i+1)
			user := clientFor(t, c, namespace, allowed)
			want := fmt.Sprintf("you must be allowed to list %s in namespace %s to create or change an Alarm that names it in spec.changes or spec.states", missing, namespace)
			g.Expect(user.Create(t.Context(), cluster.Manifest(t, "Alarm", namespace, missing, spec))).To(forbidden(want))
			allowed.Resources = resources
			g.Expect(clientFor(t, c, namespace, allowed).Create(t.Context(), cluster.Manifest(t, "Alarm", namespace, missing, spec))).To(Succeed())
		})
	}
}
