package httppost_test

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

func TestNewHeaderRefusesInvalidAndReservedHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		headers map[string][]byte
		want    string
	}{
		"idempotency key": {map[string][]byte{"idempotency-key": []byte("secret")}, "the header Idempotency-Key cannot be set"},
		"host":            {map[string][]byte{"Host": []byte("secret")}, "the header Host cannot be set"},
		"content length":  {map[string][]byte{"content-length": []byte("0")}, "the header Content-Length cannot be set"},
		"proxy":           {map[string][]byte{"Proxy-Authorization": []byte("secret")}, "the header Proxy-Authorization cannot be set"},
		"signature":       {map[string][]byte{"webhook-signature": []byte("secret")}, "the header Webhook-Signature cannot be set"},
		"event":           {map[string][]byte{"ce-id": []byte("secret")}, "the header Ce-Id cannot be set"},
		"bad name":        {map[string][]byte{"my header": []byte("secret")}, `"my header" is not a valid header name`},
		"injected line":   {map[string][]byte{"X-A": []byte("secret\r\nHost: b")}, "the value of the header X-A contains an invalid character"},
		"twice":           {map[string][]byte{"X-a": []byte("secret"), "x-A": []byte("secret")}, "the header X-A is set twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := httppost.NewHeader(tc.headers)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error reveals a value: %v", err)
			}
		})
	}
}

func TestCheckURL(t *testing.T) {
	for url, want := range map[string]bool{
		"https://hooks.slack.com/services/T/B/x": true,
		"http://127.0.0.1:8080":                  true,
		"HTTPS://example.com":                    true,
		"":                                       false,
		"hooks.slack.com/services":               false,
		"ftp://example.com":                      false,
		"https://":                               false,
		"https://:443/":                          false,
		"https://exa mple.com/secret":            false,
		"file:///etc/passwd":                     false,
	} {
		err := httppost.CheckURL(url)
		if (err == nil) != want {
			t.Errorf("CheckURL(%q) = %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error reveals the URL: %v", err)
		}
	}
}
