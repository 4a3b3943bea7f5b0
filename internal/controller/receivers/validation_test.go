package receivers_test

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
		oneSink = "exactly one of the fields in [slack "
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
		"a mention that is no ID": {
			"slack: {mentions: ['@jane'], webhookURLSecretRef: {namespace: a, name: a}}", "spec.slack.mentions[0]: Invalid value",
		},
		"a mention with markup": {
			"slack: {mentions: ['U01> <!here'], webhookURLSecretRef: {namespace: a, name: a}}", "spec.slack.mentions[0]: Invalid value",
		},
		"eleven mentions": {
			"slack: {mentions: [U01, U02, U03, U04, U05, U06, U07, U08, U09, U10, U11], webhookURLSecretRef: {namespace: a, name: a}}",
			"spec.slack.mentions: Too many",
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
		"a body of a CloudEvent": {
			"webhook: {url: https://a.example, format: CloudEvents, body: '{}'}", "a CloudEvent has its own body: remove body, or set format to JSON",
		},
		"a batch of another format": {
			"webhook: {url: https://a.example, format: CloudEventsBinary, batch: {}}",
			"a batch contains CloudEvents in structured mode: set format to CloudEvents, or remove batch",
		},
		"a batch of JSON": {
			"webhook: {url: https://a.example, batch: {maxMessages: 10}}", "set format to CloudEvents, or remove batch",
		},
		"a batch with a body": {
			"webhook: {url: https://a.example, body: '{}', batch: {}}", "a batch contains CloudEvents, which have their own body: remove batch or body",
		},
		"a batch of one": {
			"webhook: {url: https://a.example, format: CloudEvents, batch: {maxMessages: 1}}", "spec.webhook.batch.maxMessages: Invalid value",
		},
		"a large batch": {
			"webhook: {url: https://a.example, format: CloudEvents, batch: {maxMessages: 501}}", "spec.webhook.batch.maxMessages: Invalid value",
		},
		"an empty body": {"webhook: {url: https://a.example, body: ''}", "spec.webhook.body: Invalid value"},
		"a long body": {
			"webhook: {url: https://a.example, body: '" + strings.Repeat("a", 16<<10+1) + "'}", "spec.webhook.body: Too long: may not be more than 16384 bytes",
		},
		"a type without a body": {
			"webhook: {url: https://a.example, contentType: text/plain}", "contentType is for a body of your own: set it together with body only",
		},
		"a type that is not escaped": {
			"webhook: {url: https://a.example, body: a, contentType: text/html}", "spec.webhook.contentType: Invalid value",
		},
		"a method that sends nothing": {"webhook: {url: https://a.example, method: GET}", `spec.webhook.method: Unsupported value: "GET"`},
		"a header of the connection": {
			"webhook: {url: https://a.example, headers: [{name: HOST, value: a}]}", "the operator or the connection sets this header: remove it",
		},
		"a header of a proxy": {
			"webhook: {url: https://a.example, headers: [{name: Proxy-Connection, value: a}]}", "the operator or the connection sets this header: remove it",
		},
		"a type among the headers": {
			"webhook: {url: https://a.example, headers: [{name: content-type, value: a}]}", "set contentType",
		},
		"a secret among the headers": {
			"webhook: {url: https://a.example, headers: [{name: authorization, value: a}]}", "put it into the Secret of headersSecretRef",
		},
		"a header of two lines": {
			`webhook: {url: https://a.example, headers: [{name: X-A, value: "a\nX-B: b"}]}`, "spec.webhook.headers[0].value: Invalid value",
		},
		"a token without encryption": {
			"webhook: {url: https://a.example, oauth2: {tokenURL: http://a.example, clientID: a, clientSecretRef: {namespace: a, name: a, key: a}}}",
			"spec.webhook.oauth2.tokenURL: Invalid value: ... a token is a secret: use https",
		},
		"a client without a secret": {
			"alertmanager: {url: https://a.example, oauth2: {tokenURL: https://a.example, clientID: a}}",
			"spec.alertmanager.oauth2.clientSecretRef: Required value",
		},
		"two scopes in one": {
			"webhook: {url: https://a.example, oauth2: {tokenURL: https://a.example, clientID: a, scopes: [a b], clientSecretRef: {namespace: a, name: a, key: a}}}",
			"spec.webhook.oauth2.scopes[0]: Invalid value",
		},
		"no time to answer":        {"log: {}\ntimeoutSeconds: 0", "spec.timeoutSeconds: Invalid value"},
		"ten minutes and a second": {"log: {}\ntimeoutSeconds: 601", "spec.timeoutSeconds: Invalid value"},
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
		"an AlarmReceiver with a proxy": {
			"AlarmReceiver", "default", "log: {}\nproxyURL: http://a.example", `unknown field "spec.proxyURL"`,
		},
		"an AlarmReceiver with channels of labels": {
			"AlarmReceiver", "default", "slack: {channel: C0123, channelFrom: {namespaceLabel: team, allowed: ['*']}, tokenSecretRef: {name: a, key: a}}",
			`spec.slack.channelFrom is for ClusterAlarmReceivers: remove it`,
		},
		"a channel of a label for a webhook": {
			"ClusterAlarmReceiver", "", "slack: {channelFrom: {namespaceLabel: team, allowed: ['*']}, webhookURLSecretRef: {namespace: a, name: a}}",
			"channelFrom is for bots: set it together with tokenSecretRef only",
		},
		"a channel of any label value": {
			"ClusterAlarmReceiver", "", "slack: {channel: C0123, channelFrom: {namespaceLabel: team}, tokenSecretRef: {namespace: a, name: a, key: a}}",
			"spec.slack.channelFrom.allowed: Required value",
		},
		"a channel of no allowed label value": {
			"ClusterAlarmReceiver", "", "slack: {channel: C0123, channelFrom: {namespaceLabel: team, allowed: []}, tokenSecretRef: {namespace: a, name: a, key: a}}",
			"spec.slack.channelFrom.allowed: Invalid value",
		},
		"a label that is none": {
			"ClusterAlarmReceiver", "", "slack: {channel: C0123, channelFrom: {namespaceLabel: 'a b', allowed: ['*']}, tokenSecretRef: {namespace: a, name: a, key: a}}",
			"spec.slack.channelFrom.namespaceLabel: Invalid value",
		},
		"no default for the channel of a label": {
			"ClusterAlarmReceiver", "", "slack: {channelFrom: {namespaceLabel: team, allowed: ['*']}, tokenSecretRef: {namespace: a, name: a, key: a}}",
			"set channel together with tokenSecretRef only",
		},
		"a proxy with a password": {
			"ClusterAlarmReceiver", "", "webhook: {url: https://a.example}\nproxyURL: http://me:secret@a.example", "spec.proxyURL: Invalid value: ... contains a user or password",
		},
		"a proxy for email": {
			"ClusterAlarmReceiver", "", "email: {host: a.example, from: a@a.example, to: [b@a.example]}\nproxyURL: http://a.example", "email and log use no HTTP proxy: remove proxyURL",
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
