package watch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// place is where two objects differ. What is not there is nil.
type place struct {
	at       path
	from, to any
}

// places returns where two values differ, as deep down as can be told, in the
// order of their paths.
func places(from, to any) []place {
	var all []place
	walk(nil, from, to, func(p place) { all = append(all, p) })
	return all
}

func walk(at path, from, to any, found func(place)) {
	if f, t, ok := asMaps(from, to); ok {
		walkMaps(at, f, t, found)
	} else if f, t, ok := cameOrWent(at, from, to); ok {
		walkMaps(at, f, t, found)
	} else if !reflect.DeepEqual(from, to) {
		found(place{at, from, to})
	}
}

func walkMaps(at path, from, to map[string]any, found func(place)) {
	keys := sets.KeySet(from).Union(sets.KeySet(to))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		walk(at.then(key), from[key], to[key], found)
	}
}

// cameOrWent returns what a map holds that has come or gone, field by field. An
// item of a list is one thing, however much it holds.
func cameOrWent(at path, from, to any) (f, t map[string]any, ok bool) {
	if len(at) == 0 || isItem(at[len(at)-1]) || (from != nil && to != nil) {
		return nil, nil, false
	}
	f, _ = from.(map[string]any)
	t, _ = to.(map[string]any)
	return f, t, len(f)+len(t) > 0
}

// asMaps returns two values as maps if both can be read as such.
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

// itemKeys are the fields that tell the items of a list apart, as conditions are
// told apart by their type and containers by their name. The first that does for
// both lists is used.
var itemKeys = []string{"type", "name", "key", "mountPath", "containerPort", "port", "ip", "uid"}

// byKey returns the items of a list by a field of theirs, if each has one of its
// own.
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
