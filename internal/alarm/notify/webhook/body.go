package webhook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

const (
	bodyField   = "spec.webhook.body"
	contentJSON = "application/json"
)

// body is a body of the user's own.
type body struct {
	template    *match.Body
	contentType string
	isJSON      bool
	format      string
	failed      func(text string)
}

// newBody returns nil if the request has no body of its own.
func newBody(r v1alpha1.WebhookRequest, failed func(string)) (*body, error) {
	if r.Body == "" {
		return nil, nil
	}
	contentType := cmp.Or(r.ContentType, contentJSON)
	mediaType, _, _ := strings.Cut(contentType, ";")
	isJSON := strings.HasSuffix(mediaType, "json")
	template, err := match.CompileBody(bodyField, r.Body, isJSON)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(contentType + "\x00" + r.Body))
	return &body{
		template: template, contentType: contentType, isJSON: isJSON, failed: failed,
		format: "webhook/" + hex.EncodeToString(sum[:]),
	}, nil
}

var errNotJSON = errors.New(bodyField + ": the rendered body is not JSON, which is a bug in the operator")

// render returns the body even if an expression fails: a tenant could otherwise write an
// Event that stops the messages of others. It reports the failure.
func (b *body) render(m *message.Message) (rendered []byte, cost int64, err error) {
	rendered, cost, err = b.template.Render(m)
	if b.isJSON && !json.Valid(rendered) {
		return nil, cost, errNotJSON
	}
	if err != nil && b.failed != nil {
		b.failed(err.Error())
	}
	return rendered, cost, nil
}

// plainText returns a text without quotes, and other JSON as it is.
func plainText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return text
	}
	return string(raw)
}
