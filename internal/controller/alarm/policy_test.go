package alarm_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const anything = "match: [{}]" + tail

func clientFor(t *testing.T, c *cluster.Cluster, namespace string, rules ...string) client.Client {
	t.Helper()
	manage := cluster.Rule("bongsu.io", "alarms", "create", "update", "patch")
	if namespace == "" {
		manage.Resources = []string{"clusteralarms"}
	}
	all := []rbacv1.PolicyRule{manage}
	for _, verb := range rules {
		all = append(all, cluster.Rule("events.k8s.io", "events", verb))
	}
	user, err := cluster.ClientFor(c.User(t, namespace, all...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return user
}

// An alarm makes the operator read Events for its author.
func TestWhoeverMayNotListEventsCannotHaveThemSent(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for name, tc := range map[string]struct{ kind, namespace, want string }{
		"of a namespace": {"Alarm", namespace, "you must be allowed to list events.events.k8s.io in namespace " + namespace},
		"of the cluster": {"ClusterAlarm", "", "you must be allowed to list events.events.k8s.io in all namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			weak := clientFor(t, c, tc.namespace)
			refused := And(MatchError(ContainSubstring(tc.want)), WithTransform(apierrors.IsForbidden, BeTrue()))
			g.Expect(weak.Create(t.Context(), cluster.Manifest(t, tc.kind, tc.namespace, "mine", anything))).To(refused)

			strong := clientFor(t, c, tc.namespace, "list")
			mine := cluster.Manifest(t, tc.kind, tc.namespace, "mine", anything)
			g.Expect(strong.Create(t.Context(), mine)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })

			wider := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"match":[{"kinds":["Pod"]}]}}`))
			g.Expect(weak.Patch(t.Context(), mine.DeepCopy(), wider)).To(refused)
			label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			g.Expect(weak.Patch(t.Context(), mine.DeepCopy(), label)).To(Succeed(), "what does not change the spec needs no right to Events")
		})
	}
}
