package webhook

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Bounds of a key, in bytes
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#signature-scheme).
const (
	minKey = 24
	maxKey = 64
)

var errSigningKey = errors.New("the signing key must be 24 to 64 random bytes in base64, after whsec_ or alone: " +
	`for example what "openssl rand -base64 32" prints`)

// newSigner reads a key, and does not tell it if it is wrong.
func newSigner(secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, errSigningKey
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// sign adds the headers of a signature over key, time and body.
func sign(signer *standardwebhooks.Webhook, header http.Header, key string, now time.Time, body []byte) error {
	signature, err := signer.Sign(key, now, body)
	if err != nil {
		return err
	}
	header.Set(standardwebhooks.HeaderWebhookID, key)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}
