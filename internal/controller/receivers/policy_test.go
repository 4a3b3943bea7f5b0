package receivers_test

import (
	"context"
	"slices"
	"strings"
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
func TestAUserWhoMayNotGetASecretCannotUseItInAReceiver(t *testing.T) {
	c := cluster.Shared(t)
	home := c.Namespace(t, nil)
	for field, spec := range map[string]string{
		"slack.webhookURLSecretRef":           "slack: {webhookURLSecretRef: {NAMESPACEname: hook}}",
		"slack.tokenSecretRef":                "slack: {channel: C0123, tokenSecretRef: {NAMESPACEname: hook, key: token}}",
		"teams.webhookURLSecretRef":           "teams: {webhookURLSecretRef: {NAMESPACEname: hook}}",
		"discord.webhookURLSecretRef":         "discord: {webhookURLSecretRef: {NAMESPACEname: hook}}",
		"googleChat.webhookURLSecretRef":      "googleChat: {webhookURLSecretRef: {NAMESPACEname: hook}}",
		"mattermost.webhookURLSecretRef":      "mattermost: {webhookURLSecretRef: {NAMESPACEname: hook}}",
		"telegram.tokenSecretRef":             "telegram: {chatID: '1', tokenSecretRef: {NAMESPACEname: hook, key: token}}",
		"pagerDuty.routingKeySecretRef":       "pagerDuty: {routingKeySecretRef: {NAMESPACEname: hook, key: key}}",
		"alertmanager.urlSecretRef":           "alertmanager: {urlSecretRef: {NAMESPACEname: hook}}",
		"alertmanager.headersSecretRef":       "alertmanager: {url: https://a.example, headersSecretRef: {NAMESPACEname: hook}}",
		"alertmanager.caSecretRef":            "alertmanager: {url: https://a.example, caSecretRef: {NAMESPACEname: hook, key: ca.crt}}",
		"alertmanager.clientCertSecretRef":    "alertmanager: {url: https://a.example, clientCertSecretRef: {NAMESPACEname: hook}}",
		"alertmanager.oauth2.clientSecretRef": "alertmanager: {url: https://a.example, oauth2: {tokenURL: https://a.example, clientID: a, clientSecretRef: {NAMESPACEname: hook, key: key}}}",
		"webhook.clientCertSecretRef":         "webhook: {url: https://a.example, clientCertSecretRef: {NAMESPACEname: hook}}",
		"webhook.oauth2.clientSecretRef":      "webhook: {url: https://a.example, oauth2: {tokenURL: https://a.example, clientID: a, clientSecretRef: {NAMESPACEname: hook, key: key}}}",
		"email.credentialsSecretRef":          "email: {host: a.example, from: a@a.example, to: [b@a.example], credentialsSecretRef: {NAMESPACEname: hook}}",
		"email.caSecretRef":                   "email: {host: a.example, from: a@a.example, to: [b@a.example], caSecretRef: {NAMESPACEname: hook, key: ca.crt}}",
		"webhook.urlSecretRef":                "webhook: {urlSecretRef: {NAMESPACEname: hook}}",
		"webhook.headersSecretRef":            "webhook: {url: https://a.example, headersSecretRef: {NAMESPACEname: hook}}",
		"webhook.caSecretRef":                 "webhook: {url: https://a.example, caSecretRef: {NAMESPACEname: hook, key: ca.crt}}",
		"webhook.signingKeySecretRef":         "webhook: {url: https://a.example, signingKeySecretRef: {NAMESPACEname: hook, key: key}}",
	} {
		for kind, tc := range map[string]struct{ namespace, resource, inSpec string }{
			"AlarmReceiver":        {home, "alarmreceivers", ""},
			"ClusterAlarmReceiver": {"", "clusteralarmreceivers", "namespace: " + home + ", "},
		} {
			t.Run(kind+" "+field, func(t *testing.T) {
				spec := strings.ReplaceAll(spec, "NAMESPACE", tc.inSpec)
				assertSecretIsDemanded(t, c, home, access{kind, tc.namespace, tc.resource, field, spec})
			})
		}
	}
}

// access is a receiver that uses the Secret "hook".
type access struct{ kind, namespace, resource, field, spec string }

func assertSecretIsDemanded(t *testing.T, c *cluster.Cluster, home string, tc access) {
	t.Helper()
	g := NewWithT(t)
	manage := cluster.Rule("bongsu.io", tc.resource, "create", "update", "patch")
	as := func(rules ...rbacv1.PolicyRule) client.Client {
		user, err := cluster.ClientFor(c.User(t, tc.namespace, rules...))
		g.Expect(err).NotTo(HaveOccurred())
		return user
	}
	refused := And(
		MatchError(ContainSubstring("spec."+tc.field+": you must be allowed to get Secret "+home+"/hook to use it in a receiver")),
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
}

func TestThePolicyChecksEverySecretOfAReceiver(t *testing.T) {
	c := cluster.Shared(t)
	home := c.Namespace(t, nil)
	rules := []rbacv1.PolicyRule{cluster.Rule("bongsu.io", "alarmreceivers", "create"), mayGet("url"), mayGet("headers"), mayGet("ca"), mayGet("key"), mayGet("cert"), mayGet("client")}
	spec := "webhook: {urlSecretRef: {name: url}, headersSecretRef: {name: headers}, caSecretRef: {name: ca, key: a}, signingKeySecretRef: {name: key, key: a}, " +
		"clientCertSecretRef: {name: cert}, oauth2: {tokenURL: https://a.example, clientID: a, clientSecretRef: {name: client, key: a}}}"
	for missing, secret := range []string{"", "url", "headers", "ca", "key", "cert", "client"} {
		granted := slices.Clone(rules)
		want := Succeed()
		if secret != "" {
			granted = slices.Delete(granted, missing, missing+1)
			want = MatchError(ContainSubstring("you must be allowed to get Secret " + home + "/" + secret))
		}
		user, err := cluster.ClientFor(c.User(t, home, granted...))
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(user.Create(t.Context(), cluster.Manifest(t, "AlarmReceiver", home, "mine", spec), client.DryRunAll)).To(want)
	}
}
