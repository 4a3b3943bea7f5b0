package receiver_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// mayGet allows to get one Secret.
func mayGet(secret string) rbacv1.PolicyRule {
	rule := cluster.Rule("", "secrets", "get")
	rule.ResourceNames = []string{secret}
	return rule
}

// A receiver makes the operator read a Secret for its author.
func TestWhoeverMayNotGetASecretCannotUseItInAReceiver(t *testing.T) {
	c := cluster.Shared(t)
	home := c.Namespace(t, nil)
	for name, tc := range map[string]struct{ kind, namespace, field, spec string }{
		"slack": {
			"AlarmReceiver", home, "spec.slack.webhookURLSecretRef", "slack: {webhookURLSecretRef: {name: hook}}",
		},
		"the URL of a webhook": {
			"AlarmReceiver", home, "spec.webhook.urlSecretRef", "webhook: {urlSecretRef: {name: hook}}",
		},
		"headers": {
			"AlarmReceiver", home, "spec.webhook.headersSecretRef",
			"webhook: {url: https://a.example, headersSecretRef: {name: hook}}",
		},
		"slack of the cluster": {
			"ClusterAlarmReceiver", "", "spec.slack.webhookURLSecretRef",
			"slack: {webhookURLSecretRef: {namespace: " + home + ", name: hook}}",
		},
		"the URL of a webhook of the cluster": {
			"ClusterAlarmReceiver", "", "spec.webhook.urlSecretRef",
			"webhook: {urlSecretRef: {namespace: " + home + ", name: hook}}",
		},
		"headers of the cluster": {
			"ClusterAlarmReceiver", "", "spec.webhook.headersSecretRef",
			"webhook: {url: https://a.example, headersSecretRef: {namespace: " + home + ", name: hook}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			resource := map[string]string{"AlarmReceiver": "alarmreceivers", "ClusterAlarmReceiver": "clusteralarmreceivers"}[tc.kind]
			manage := cluster.Rule("bongsu.io", resource, "create", "update", "patch")
			as := func(rules ...rbacv1.PolicyRule) client.Client {
				user, err := cluster.ClientFor(c.User(t, tc.namespace, rules...))
				g.Expect(err).NotTo(HaveOccurred())
				return user
			}
			refused := And(
				MatchError(ContainSubstring(tc.field+": you must be allowed to get Secret "+home+"/hook to use it in a receiver")),
				WithTransform(apierrors.IsForbidden, BeTrue()),
			)
			weak, strong := as(manage, mayGet("another")), as(manage, mayGet("hook"))
			receiver := func(spec string) client.Object {
				return cluster.Manifest(t, tc.kind, tc.namespace, "mine", spec)
			}
			g.Expect(weak.Create(t.Context(), receiver(tc.spec))).To(refused)
			g.Expect(strong.Create(t.Context(), receiver(tc.spec))).To(Succeed())
			g.Expect(c.Client.Delete(t.Context(), receiver(tc.spec))).To(Succeed())

			// Nor by changing one that names no Secret yet.
			mine := receiver("log: {}")
			g.Expect(weak.Create(t.Context(), mine)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), mine) })
			changed := receiver(tc.spec)
			changed.SetResourceVersion(mine.GetResourceVersion())
			g.Expect(weak.Update(t.Context(), changed)).To(refused)
		})
	}
}
