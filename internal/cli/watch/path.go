package watch

import (
	"slices"
	"strings"
)

// path is a place in an object: its fields, and [key] for an item of a list.
type path []string

// then returns the path one step on.
func (p path) then(step string) path { return append(slices.Clip(p), step) }

// String returns a path like spec.containers[app].image.
func (p path) String() string {
	var b strings.Builder
	for i, step := range p {
		switch {
		case isItem(step):
		case strings.ContainsAny(step, "./[] "):
			step = "[" + step + "]"
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}

func item(key string) string { return "[" + key + "]" }

func isItem(step string) bool { return strings.HasPrefix(step, "[") && strings.HasSuffix(step, "]") }

// pattern matches paths. A step * is any one step, a first step ** any number of
// them, a last step ** whatever lies at the place or below it.
type pattern []string

const (
	one  = "*"
	many = "**"
)

func parsePattern(s string) pattern { return strings.Fields(s) }

// match also returns what the pattern's last * stood for.
func (p pattern) match(at path) (last string, ok bool) {
	if len(p) > 0 && p[0] == many {
		if len(at) < len(p)-1 {
			return "", false
		}
		return p[1:].match(at[len(at)-(len(p)-1):])
	}
	if n := len(p) - 1; n >= 0 && p[n] == many && len(at) >= n {
		p, at = p[:n], at[:n]
	}
	if len(p) != len(at) {
		return "", false
	}
	for i, step := range p {
		switch step {
		case one:
			last = strings.TrimSuffix(strings.TrimPrefix(at[i], "["), "]")
		case at[i]:
		default:
			return "", false
		}
	}
	return last, true
}
