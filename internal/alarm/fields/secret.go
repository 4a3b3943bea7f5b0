package fields

import (
	"regexp"
	"slices"
	"strings"
)

// hidden replaces values that may be secret.
const hidden = "(hidden)"

var (
	// secretName matches names of environment variables and flags.
	secretName = regexp.MustCompile(`(?i)PASSWORD|PASSWD|TOKEN|SECRET|KEY|CREDENTIAL`)
	// secretKey matches keys of maps whose text is secret. References to Secrets have other
	// names, for example secretName.
	secretKey = regexp.MustCompile(`(?i:password|passwd|token|secret|(api|access|private)[-_.]?key)$|^[A-Z0-9_]*(PASSWORD|PASSWD|TOKEN|SECRET|KEY|CREDENTIAL)[A-Z0-9_]*$`)
	// secretText matches assignments of secrets, and addresses with a password.
	secretText = regexp.MustCompile(`(?i)(password|passwd|token|secret|(api|access|private)[-_]?key)[\w.-]*["']?\s*(=|:\s|:["'])\s*\S` +
		`|\b(bearer|basic)\s+\S|://[^\s/@:]*:[^\s/@]+@|PRIVATE KEY-----`)
)

// isSecretField reports whether the value of a field of a map may be secret.
func isSecretField(m map[string]any, key string) bool {
	if name, ok := m["name"].(string); ok && key == "value" && secretName.MatchString(name) {
		return true
	}
	_, ok := m[key].(string)
	return ok && secretKey.MatchString(key)
}

// namesValues are maps whose keys tenants choose, and name values.
var namesValues = []string{"data", "binaryData", "stringData", "annotations"}

// isSecretKey reports whether a key of the map with a name may have a secret value.
func isSecretKey(name, key string) bool {
	return slices.Contains(namesValues, name) && secretName.MatchString(key)
}

// followsSecretFlag reports whether a list entry is the value of a flag, for example of
// --password.
func followsSecretFlag(list []any, i int) bool {
	if i == 0 || i > len(list) {
		return false
	}
	flag, ok := list[i-1].(string)
	return ok && strings.HasPrefix(flag, "-") && secretName.MatchString(flag)
}

// isSecretText reports whether a value is a text that may contain a secret.
func isSecretText(value any) bool {
	s, ok := value.(string)
	return ok && secretText.MatchString(s)
}
