package share

import (
	"encoding/base64"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// redacted stands for a value.
const redacted = "[redacted]"

// minRedacted is below how many bytes a value is not looked for: it would be found
// in any sentence, and tells nothing.
const minRedacted = 4

// Redact takes the values of Secrets, plain or in base64, out of a text that
// somebody else has written who saw them: what refuses a write may quote it, and what
// was there before.
func Redact(text string, secrets ...*corev1.Secret) string {
	var forms []string
	for _, s := range secrets {
		for _, value := range s.Data {
			forms = append(forms, string(value), strings.TrimSpace(string(value)), base64.StdEncoding.EncodeToString(value))
		}
	}
	// The longest first: of a value that holds another, nothing may stay.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		if len(form) >= minRedacted {
			text = strings.ReplaceAll(text, form, redacted)
		}
	}
	return text
}
