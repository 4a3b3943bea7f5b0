package watch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// path locates a field in an object. A step is a field name, or [key] for an item of a
// list.
type path []string

// then returns the path extended by a step.
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

// pattern matches paths. The step * matches any one step. A first step ** matches any
// number of steps, and a last step ** matches the field itself and all fields below it.
type pattern []string

const (
	one  = "*"
	many = "**"
)

func parsePattern(s string) pattern { return strings.Fields(s) }

// match also returns the step that the pattern's last * matched.
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

// fieldChange is a field that differs between two objects. A missing value is nil.
type fieldChange struct {
	at       path
	from, to any
}

// changedFields returns the fields that differ between two values, sorted by path. It
// descends into maps, and into lists whose items have a key.
func changedFields(from, to any) []fieldChange {
	var all []fieldChange
	walk(nil, from, to, func(c fieldChange) { all = append(all, c) })
	return all
}

func walk(at path, from, to any, found func(fieldChange)) {
	if f, t, ok := asMaps(from, to); ok {
		walkMaps(at, f, t, found)
	} else if f, t, ok := addedOrRemoved(at, from, to); ok {
		walkMaps(at, f, t, found)
	} else if !reflect.DeepEqual(from, to) {
		found(fieldChange{at, from, to})
	}
}

func walkMaps(at path, from, to map[string]any, found func(fieldChange)) {
	keys := sets.KeySet(from).Union(sets.KeySet(to))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		walk(at.then(key), from[key], to[key], found)
	}
}

// addedOrRemoved returns the content of a map that was added or removed, so that each of
// its fields is reported. An item of a list is reported as a whole.
func addedOrRemoved(at path, from, to any) (f, t map[string]any, ok bool) {
	if len(at) == 0 || isItem(at[len(at)-1]) || (from != nil && to != nil) {
		return nil, nil, false
	}
	f, _ = from.(map[string]any)
	t, _ = to.(map[string]any)
	return f, t, len(f)+len(t) > 0
}

// asMaps returns two values as maps if both are maps, or lists with keyed items.
func asMaps(from, to any) (f, t map[string]any, ok bool) {
	if f, ok = from.(map[string]any); ok {
		t, ok = to.(map[string]any)
		return f, t, ok
	}
	fs, fok := from.([]any)
	ts, tok := to.([]any)
	if !fok || !tok || len(fs) == 0 || len(ts) == 0 {
		return nil, nil, false
	}
	for _, key := range itemKeys {
		f, fok = byKey(fs, key)
		t, tok = byKey(ts, key)
		if fok && tok {
			return f, t, true
		}
	}
	return nil, nil, false
}

// itemKeys are the fields that can identify the items of a list, such as the type of a
// condition or the name of a container. The first that is unique in both lists is used.
var itemKeys = []string{"type", "name", "key", "mountPath", "containerPort", "port", "ip", "uid"}

// byKey indexes the items of a list by a field. It returns false if the field is not
// unique.
func byKey(list []any, key string) (map[string]any, bool) {
	items := map[string]any{}
	for _, element := range list {
		fields, _ := element.(map[string]any)
		switch value := fields[key].(type) {
		case string, int64:
			items[item(fmt.Sprint(value))] = element
		}
	}
	return items, len(items) == len(list)
}
