package alarm_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
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

// rightsBut returns what an alarm on anything needs, but for objects of one kind.
func rightsBut(kind string) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{listEvents()}
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

			strong := clientFor(t, c, tc.namespace, listEvents(), readable["Job"])
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

// An alarm also reads the objects that Events regard. A user who may create Events chooses
// these objects.
func TestAUserWhoMayNotGetObjectsCannotReceiveThem(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for kind, rule := range readable {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			want := "you must be allowed to get " + rule.Resources[0]
			ofCluster := clientFor(t, c, "", rightsBut(kind)...)
			for _, spec := range []string{anything, "match: [{kinds: [Job]}, {kinds: [" + kind + "]}]" + tail} {
				g.Expect(ofCluster.Create(t.Context(), cluster.Manifest(t, "ClusterAlarm", "", "mine", spec))).To(forbidden(want))
			}
			if kind == "Node" || kind == "PersistentVolume" {
				return // no Alarm sees those
			}
			ofNamespace := clientFor(t, c, namespace, rightsBut(kind)...)
			g.Expect(ofNamespace.Create(t.Context(), cluster.Manifest(t, "Alarm", namespace, "mine", anything))).To(forbidden(want))
		})
	}
	t.Run("a user with all rights", func(t *testing.T) {
		user := clientFor(t, c, namespace, rightsBut("")...)
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
