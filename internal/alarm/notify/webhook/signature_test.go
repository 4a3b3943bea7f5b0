package webhook_test

import (
	"encoding/base64"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

var signingKey = base64.StdEncoding.EncodeToString([]byte("a key of thirty-two bytes, secret"))

func TestARequestIsSignedAsStandardWebhooksVerifies(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range append(cloudEventFormats, v1alpha1.WebhookJSON) {
		for _, key := range []string{signingKey, "whsec_" + signingKey + "\n"} {
			server := sink.New(t)
			n := newFrom(t, webhook.Config{URL: server.URL(), Format: format, Sign: true, SigningKey: key})
			body, err := n.Render(example())
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Send(t.Context(), "key-1", body); err != nil {
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
	for what, key := range map[string]string{
		"empty": "", "no base64": "secret, surely", "short": "c2VjcmV0", "long": base64.StdEncoding.EncodeToString(make([]byte, 65)),
	} {
		t.Run(what, func(t *testing.T) {
			_, err := webhook.New(nil, webhook.Config{URL: "https://a.example", Sign: true, SigningKey: key})
			if err == nil || !strings.Contains(err.Error(), "24 to 64 random bytes") {
				t.Fatalf("got %v", err)
			}
			if key != "" && strings.Contains(err.Error(), key) {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
}
