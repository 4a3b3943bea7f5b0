package httppost

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// reserved headers are set by the operator or belong to the connection.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key",
	"Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	"X-Idempotency-Key", // with it, net/http repeats a POST by itself
}

// reservedPrefixes begin headers of proxies, CloudEvents and Standard Webhooks.
var reservedPrefixes = []string{"Proxy-", "Ce-", "Webhook-"}

// NewHeader makes a header of a Secret's data, or says what is wrong with it, without
// telling a value.
func NewHeader(data map[string][]byte) (http.Header, error) {
	header := http.Header{}
	for name, value := range data {
		text := strings.TrimSpace(string(value))
		if err := checkHeader(name, text); err != nil {
			return nil, err
		}
		if header.Values(name) != nil {
			return nil, fmt.Errorf("the Secret holds the header %s twice, in different spellings; remove one", http.CanonicalHeaderKey(name))
		}
		header.Set(name, text)
	}
	return header, nil
}

func checkHeader(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("the Secret's key %q is not a header's name; use letters, digits and hyphens", name)
	}
	canonical := http.CanonicalHeaderKey(name)
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(canonical, prefix) }
	if slices.Contains(reserved, canonical) || slices.ContainsFunc(reservedPrefixes, hasPrefix) {
		return fmt.Errorf("the header %s cannot be set; remove it from the Secret", canonical)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("the value of the header %s holds a character that headers may not; it must be a single line", canonical)
	}
	return nil
}
