package children

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestContains(t *testing.T) {
	for name, tc := range map[string]struct {
		found, wanted string
		want          bool
	}{
		"the same":                           {"a: 1", "a: 1", true},
		"more is no matter":                  {"{a: 1, b: 2}", "a: 1", true},
		"less is":                            {"b: 2", "{a: 1, b: 2}", false},
		"another value":                      {"a: 1", "a: 2", false},
		"a zero that is wanted is a value":   {"a: 1", "a: 0", false},
		"a false that is wanted is a value":  {"{}", "a: false", false},
		"another kind of value":              {"a: []", "a: {}", false},
		"entries in another order":           {"a: [{name: x, v: 1}, {name: y, v: 2}]", "a: [{name: y, v: 2}]", true},
		"an entry that is missing":           {"a: [{name: x}]", "a: [{name: x}, {name: y}]", false},
		"an entry that differs":              {"a: [{name: x, v: 1}]", "a: [{name: x, v: 2}]", false},
		"mounts are found by their path":     {"a: [{name: v, mountPath: /a}, {name: v, mountPath: /b, readOnly: true}]", "a: [{name: v, mountPath: /b}]", true},
		"a mount of the volume elsewhere":    {"a: [{name: v, mountPath: /a}]", "a: [{name: v, mountPath: /b}]", false},
		"entries without a key, same order":  {"a: [x, y]", "a: [x, y]", true},
		"entries without a key, other order": {"a: [y, x]", "a: [x, y]", false},
		"entries without a key, more found":  {"a: [x, y]", "a: [x]", false},
		"the same selector":                  {"{selector: {a: b}, c: d}", "selector: {a: b}", true},
		"a selector with another label":      {"selector: {a: b, c: d}", "selector: {a: b}", false},
		"a selector with an expression":      {"labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: c}]}", "labelSelector: {matchLabels: {a: b}}", false},
		"wanted empty map":                   {"a: {b: 1}", "a: {}", true},
		"a map that is wanted and not there": {"{}", "a: {}", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Contains(decode(t, tc.found), decode(t, tc.wanted)); got != tc.want {
				t.Errorf("Contains(%s, %s) = %v", tc.found, tc.wanted, got)
			}
		})
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
