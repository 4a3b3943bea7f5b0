package receiver_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestTheAPIServerRefusesAWrongReceiverAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict) // as kubectl does
	const (
		oneSink = "set exactly one of slack, teams, discord, telegram, pagerDuty, alertmanager, email, webhook and log"
		oneURL  = "spec.webhook: Invalid value: set exactly one of url and urlSecretRef"
		badURL  = "spec.webhook.url: Invalid value: ... not an absolute http or https URL: write for example https://alarms.example.com/bongsu"
		userURL = "spec.webhook.url: Invalid value: ... contains a user or password: put the URL into a Secret and name it in urlSecretRef"
	)
	for name, tc := range map[string]struct{ spec, want string }{
		"no spec":             {"", "spec: Required value"},
		"no sink":             {"{}", oneSink},
		"two sinks":           {"log: {}\nwebhook: {url: https://a.example}", oneSink},
		"an unknown sink":     {"pigeon: {}", `unknown field "spec.pigeon"`},
		"a webhook of no URL": {"webhook: {}", oneURL},
		"a URL twice":         {"webhook: {url: https://a.example, urlSecretRef: {namespace: a, name: a}}", oneURL},
		"a URL without host":  {"webhook: {url: 'https:///a'}", badURL},
		"a relative URL":      {"webhook: {url: /a}", badURL},
		"an ftp URL":          {"webhook: {url: ftp://a.example}", badURL},
		"words for a URL":     {"webhook: {url: my server}", badURL},
		"an empty URL":        {"webhook: {url: ''}", badURL},
		"a URL with password": {"webhook: {url: 'https://me:secret@a.example/'}", userURL},
		"a URL with fragment": {"webhook: {url: 'https://a.example/#b'}", "spec.webhook.url: Invalid value: ... contains a fragment: remove # and the text after it"},
		"a URL with user":     {"webhook: {url: 'https://me@a.example'}", userURL},
		"a long URL":          {"webhook: {url: https://a.example/" + strings.Repeat("a", 2048) + "}", "spec.webhook.url: Too long: may not be more than 2048 bytes"},
		"slack of no Secret":  {"slack: {}", "spec.slack: Invalid value: set exactly one of webhookURLSecretRef and tokenSecretRef"},
		"a Secret of no name": {"slack: {webhookURLSecretRef: {namespace: a}}", "spec.slack.webhookURLSecretRef.name: Required value"},
		"an empty Secret name": {
			"slack: {webhookURLSecretRef: {namespace: a, name: ''}}", "spec.slack.webhookURLSecretRef.name: Invalid value",
		},
		"an empty key": {
			"slack: {webhookURLSecretRef: {namespace: a, name: a, key: ''}}", "spec.slack.webhookURLSecretRef.key: Invalid value",
		},
		"a long key": {
			"slack: {webhookURLSecretRef: {namespace: a, name: a, key: " + strings.Repeat("a", 254) + "}}",
			"spec.slack.webhookURLSecretRef.key: Too long: may not be more than 253 bytes",
		},
		"an unknown format": {"webhook: {url: https://a.example, format: XML}", `spec.webhook.format: Unsupported value: "XML"`},
		"a signature's key of no Secret": {
			"webhook: {url: https://a.example, signingKeySecretRef: {namespace: a, name: a}}", "spec.webhook.signingKeySecretRef.key: Required value",
		},
		"authorities of no Secret": {
			"webhook: {url: https://a.example, caSecretRef: {namespace: a, key: ca.crt}}", "spec.webhook.caSecretRef.name: Required value",
		},
		"a bot without channel": {
			"slack: {tokenSecretRef: {namespace: a, name: a, key: a}}", "set channel together with tokenSecretRef only",
		},
		"a channel for a webhook": {
			"slack: {channel: C0123, webhookURLSecretRef: {namespace: a, name: a}}", "set channel together with tokenSecretRef only",
		},
		"an API for a webhook": {
			"slack: {apiURL: https://a.example, webhookURLSecretRef: {namespace: a, name: a}}", "apiURL is for bots: set it together with tokenSecretRef only",
		},
		"a channel that is none": {
			"slack: {channel: general, tokenSecretRef: {namespace: a, name: a, key: a}}", "spec.slack.channel: Invalid value",
		},
		"teams of no Secret": {"teams: {}", "spec.teams.webhookURLSecretRef: Required value"},
		"a chat without a number or name": {
			"telegram: {chatID: my chat, tokenSecretRef: {namespace: a, name: a, key: a}}", "spec.telegram.chatID: Invalid value",
		},
		"a bot whose server is no URL": {
			"telegram: {chatID: '1', apiURL: x, tokenSecretRef: {namespace: a, name: a, key: a}}", "spec.telegram.apiURL: Invalid value: ... not an absolute http or https URL",
		},
		"an unknown severity": {
			"pagerDuty: {severity: high, routingKeySecretRef: {namespace: a, name: a, key: a}}", `spec.pagerDuty.severity: Unsupported value: "high"`,
		},
		"an Alertmanager without URL": {"alertmanager: {}", "set exactly one of url and urlSecretRef"},
		"an alert that ends at once": {
			"alertmanager: {url: http://a.example, resolveAfterSeconds: 1}", "spec.alertmanager.resolveAfterSeconds: Invalid value",
		},
		"mail without a recipient": {"email: {host: a.example, from: a@a.example, to: []}", "spec.email.to: Invalid value"},
		"mail to more than an address": {
			"email: {host: a.example, from: a@a.example, to: ['Me <me@a.example>']}", "spec.email.to[0]: Invalid value",
		},
		"mail through a URL": {
			"email: {host: 'smtp://a.example', from: a@a.example, to: [b@a.example]}", "spec.email.host: Invalid value",
		},
		"a password without encryption": {
			"email: {host: a.example, from: a@a.example, to: [b@a.example], tls: None, credentialsSecretRef: {namespace: a, name: a}}",
			"credentialsSecretRef needs encryption",
		},
		"headers of no Secret": {
			"webhook: {url: https://a.example, headersSecretRef: {namespace: a}}", "spec.webhook.headersSecretRef.name: Required value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := strict.Create(t.Context(), cluster.Manifest(t, "ClusterAlarmReceiver", "", "wrong", tc.spec))
			g.Expect(err).To(says(tc.want))
			// One of a namespace names Secrets of that namespace alone.
			spec := strings.ReplaceAll(strings.ReplaceAll(tc.spec, "namespace: a, ", ""), "namespace: a", "")
			err = strict.Create(t.Context(), cluster.Manifest(t, "AlarmReceiver", metav1.NamespaceDefault, "wrong", spec))
			g.Expect(err).To(says(tc.want))
		})
	}
	for name, tc := range map[string]struct{ kind, namespace, spec, want string }{
		"a receiver of the cluster must say where its Secret is": {
			"ClusterAlarmReceiver", "", "slack: {webhookURLSecretRef: {name: a}}",
			"spec.slack.webhookURLSecretRef.namespace: Required value",
		},
		"a receiver of a namespace cannot name a Secret of another": {
			"AlarmReceiver", "default", "slack: {webhookURLSecretRef: {namespace: kube-system, name: a}}",
			`unknown field "spec.slack.webhookURLSecretRef.namespace"`,
		},
		"an AlarmReceiver with allowedNamespaces": {
			"AlarmReceiver", "default", "log: {}\nallowedNamespaces: {}", `unknown field "spec.allowedNamespaces"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := strict.Create(t.Context(), cluster.Manifest(t, tc.kind, tc.namespace, "wrong", tc.spec))
			NewWithT(t).Expect(err).To(says(tc.want))
		})
	}
}

// says matches an error that holds all parts of a text, between which "..." stands.
func says(want string) types.GomegaMatcher {
	var all []types.GomegaMatcher
	for part := range strings.SplitSeq(want, "...") {
		all = append(all, MatchError(ContainSubstring(strings.TrimSpace(part))))
	}
	return And(all...)
}
