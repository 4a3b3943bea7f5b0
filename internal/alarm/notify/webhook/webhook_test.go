package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newNotifier(t testing.TB, url string, headers map[string][]byte) *webhook.Notifier {
	t.Helper()
	return newFrom(t, webhook.Config{URL: url, Headers: headers})
}

func newFrom(t testing.TB, config webhook.Config) *webhook.Notifier {
	t.Helper()
	config.Clock = clock.RealClock{}
	n, err := webhook.New(notifiers.Client(t), config)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cause is the cause of the Event in the example.
const cause = `container "app" was killed because it used more memory than its limit of 64Mi: raise resources.limits.memory, or reduce its memory use`

// example returns the message in docs/webhook.md.
func example() message.Message {
	hourAgo := noon.Add(-time.Hour)
	return message.Message{
		Version: message.Version, Cluster: "prod",
		Alarm: kube.Key{Kind: "Alarm", Namespace: "shop", Name: "crashes"},
		Title: `shop/web: container "app" was killed because it used more memory than its limit of 64Mi (Pod web-0)`,
		Text:  "Back-off restarting failed container\nCause: " + cause + "\n4 times since 2026-11-20 11:00:00 UTC, 1 new",
		Count: 1, FirstSeen: hourAgo, LastSeen: noon,
		Events: []message.Event{{
			Type: "Warning", Reason: "BackOff", Note: "Back-off restarting failed container",
			Count: 1, FirstSeen: hourAgo, LastSeen: noon,
			Regarding: message.Reference{
				APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "5a8f1c1e-0f6c-4a52-9d5c-1f1a4b8e2f00",
			},
			Object:              message.Object{Labels: map[string]string{"app": "web"}, Owner: message.Owner{Kind: "StatefulSet", Name: "web"}, Cause: cause},
			ReportingController: "kubelet",
		}},
	}
}

func digest() message.Message {
	a, b := example(), example()
	b.Alarm = kube.Key{Kind: "ClusterAlarm", Name: "nodes"}
	b.Events[0].Reason = "NodeReady"
	return message.Combine([]message.Message{a, b})
}

func TestRenderedBodiesFollowTheSchema(t *testing.T) {
	schema := compileSchema(t)
	others := messages.Grouped(4, false)
	others.Group.By = nil
	for name, m := range map[string]message.Message{
		"one": example(), "digest": digest(), "without events": {Version: message.Version},
		"of a group": messages.Grouped(4, false), "resolved": messages.Grouped(9, true), "of all other groups": others,
	} {
		t.Run(name, func(t *testing.T) {
			body := notifiers.Render(t, newNotifier(t, "http://a.example", nil), m)
			if err := validate(t, schema, body); err != nil {
				t.Errorf("%v\n%s", err, body)
			}
		})
	}
}

func TestTheSchemaRefusesInvalidBodies(t *testing.T) {
	schema := compileSchema(t)
	for name, change := range map[string]func(map[string]any){
		"no count":         func(m map[string]any) { delete(m, "count") },
		"another version":  func(m map[string]any) { m["version"] = "v2" },
		"a text for count": func(m map[string]any) { m["count"] = "1" },
		"events null":      func(m map[string]any) { m["events"] = nil },
		"51 events":        func(m map[string]any) { m["events"] = make([]any, 51) },
		"no time":          func(m map[string]any) { m["lastSeen"] = "yesterday" },
		"a group of none":  func(m map[string]any) { m["group"] = map[string]any{"total": 1} },
	} {
		t.Run(name, func(t *testing.T) {
			body := map[string]any{}
			remarshal(t, example(), &body)
			change(body)
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if validate(t, schema, raw) == nil {
				t.Errorf("the schema accepts %s", raw)
			}
		})
	}
}

// The schema must accept a message with all fields, even if it forbids additional
// properties.
func TestTheSchemaDescribesEveryField(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/webhook.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	strict := bytes.ReplaceAll(raw, []byte(`"properties": {`), []byte(`"additionalProperties": false, "properties": {`))
	full := example()
	full.Events[0].Object.Annotations = map[string]string{"a": "b"}
	full.NamespaceLabels = map[string]string{"team": "shop"}
	full.Group = messages.Grouped(4, false).Group
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, compile(t, strict), body); err != nil {
		t.Error(err)
	}
}

func TestTheGuideShowsARealBody(t *testing.T) {
	guide, err := os.ReadFile("../../../../docs/webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(guide)
	for _, example := range []any{example(), map[string]any{"group": messages.Grouped(9, true).Group}} {
		_, rest, _ = strings.Cut(rest, "```json\n")
		shown, _, _ := strings.Cut(rest, "```")
		var want, got any
		if err := json.Unmarshal([]byte(shown), &want); err != nil {
			t.Fatal(err)
		}
		remarshal(t, example, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the guide's example differs from the request:\n%s", diff)
		}
	}
}

func remarshal(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile("../../../../docs/webhook.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, raw)
}

func compile(t *testing.T, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("webhook.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("webhook.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, body []byte) error {
	t.Helper()
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

func TestSendAddsTheSecretsHeaders(t *testing.T) {
	server := sink.New(t)
	n := newNotifier(t, " "+server.URL()+"\n", map[string][]byte{"authorization": []byte("Bearer token\n"), "X-Team": []byte("shop")})
	if err := n.Send(t.Context(), "key-1", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	got := server.Accepted()[0].Header
	for name, want := range map[string]string{
		"Authorization": "Bearer token", "X-Team": "shop", "Idempotency-Key": "key-1", "Content-Type": "application/json",
	} {
		if got := got.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestNewDoesNotRevealAnInvalidURL(t *testing.T) {
	_, err := webhook.New(nil, webhook.Config{URL: "ftp://secret"})
	if !errors.Is(err, httppost.ErrInvalidURL) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

var signingKey = base64.StdEncoding.EncodeToString([]byte("a key of thirty-two bytes, secret"))

func TestARequestIsSignedAsStandardWebhooksVerifies(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range append(cloudEventFormats, v1alpha1.WebhookJSON) {
		for _, key := range []string{signingKey, "whsec_" + signingKey + "\n"} {
			server := sink.New(t)
			n := newFrom(t, webhook.Config{URL: server.URL(), Request: v1alpha1.WebhookRequest{Format: format}, Sign: true, SigningKey: key})
			if err := n.Send(t.Context(), "key-1", notifiers.Render(t, n, example())); err != nil {
				t.Fatal(err)
			}
			r := server.Accepted()[0]
			if err := verifier.Verify(r.Body, r.Header); err != nil {
				t.Errorf("%s: %v", format, err)
			}
			if got := r.Header.Get("Webhook-Id"); got != "key-1" {
				t.Errorf("webhook-id is %q", got)
			}
			if verifier.Verify(append(r.Body, ' '), r.Header) == nil {
				t.Error("another body verifies")
			}
			r.Header.Set("Webhook-Id", "key-2")
			if verifier.Verify(r.Body, r.Header) == nil {
				t.Error("another id verifies")
			}
		}
	}
}

func TestNewRefusesAWeakKeyAndDoesNotRevealIt(t *testing.T) {
	for name, key := range map[string]string{
		"empty": "", "not base64": "secret, surely", "short": "c2VjcmV0", "long": base64.StdEncoding.EncodeToString(make([]byte, 65)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := webhook.New(nil, webhook.Config{URL: "https://a.example", Sign: true, SigningKey: key})
			if err == nil || !strings.Contains(err.Error(), "24 to 64 random bytes") {
				t.Fatalf("got %v", err)
			}
			if key != "" && strings.Contains(err.Error(), key) {
				t.Errorf("the error reveals the key: %v", err)
			}
		})
	}
}
