package fields

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// maxField limits the bytes of Difference.Field and Difference.Subject, maxKey those of one
	// key in it.
	maxField = 512
	maxKey   = 100
	// maxTrim limits how many values are compared to find equal entries at both ends of lists.
	maxTrim = 100_000
	// maxQuantity is the longest quantity that is parsed, in bytes.
	maxQuantity = 32
)

// Difference is one field, or one list entry, that differs.
type Difference struct {
	// Field is the concrete path, for example spec.template.spec.containers[web].image. It has
	// 512 bytes at most.
	Field string
	// Subject is the field in plain words, for example "image of container web". It has 512
	// bytes at most.
	Subject string
	// From and To are the values as texts of at most 80 characters. They are empty if the
	// field was unset, and if it may be secret.
	From, To string
	// Added and Removed report that the field is set on one side only.
	Added, Removed bool
	// Entry reports that Field is an entry of a list, which was added or removed.
	Entry bool
	// Hidden reports that the values may be secret.
	Hidden bool

	places []place
}

// Differences returns the fields at the paths that differ, at most limit, and how many more
// there are. They are in the order of the names of fields, and of list entries.
//
// A missing field, null, an empty list and an empty map are equal, because clients and
// defaults add them without effect, as in "affinity: {}". An empty label selector is not:
// it selects everything. Whole numbers are equal whatever their type, and quantities if they
// have the same value. An entry of a list that was added or removed is one difference. The
// order of entries with a unique key, and of scalars, counts only for command, args, and
// initContainers.
func Differences(before, after map[string]any, paths []Path, limit int) (found []Difference, more int) {
	s := NewShape(paths...)
	if len(s.paths) == 0 {
		return nil, 0
	}
	before, after = withoutNoise(before, s.noise()), withoutNoise(after, s.noise())
	c := &comparison{limit: limit, trim: maxTrim, isSecret: before["kind"] == "Secret" || after["kind"] == "Secret"}
	c.maps(treeOf(s.paths), before, after)
	return c.found, c.more
}

// everything is the tree that keeps all of a value.
var everything = &tree{all: true}

// at returns what is compared of a field, or nil.
func (t *tree) at(name string) *tree {
	if t.all {
		return everything
	}
	return t.of(name)
}

// comparison collects differences. place is where it is.
type comparison struct {
	found       []Difference
	limit, more int
	place       []place
	// trim is how many values equal can still compare.
	trim int
	// secret is the number of fields around the present place that may be secret.
	secret int
	// isSecret reports that the object is a Secret.
	isSecret bool
}

// compare compares what n selects of two values.
func (c *comparison) compare(n *tree, before, after any) {
	if len(c.place) > maxDepth {
		return
	}
	beforeMap, isMap := before.(map[string]any)
	afterMap, areMaps := after.(map[string]any)
	beforeList, isList := before.([]any)
	afterList, areLists := after.([]any)
	switch {
	case !n.all:
		c.maps(n, beforeMap, afterMap)
		if n.elements != nil {
			c.lists(n.elements, beforeList, afterList)
		}
	case isMap && areMaps,
		isMap && after == nil && isFlat(beforeMap),
		areMaps && before == nil && isFlat(afterMap):
		c.mapsOrSelector(n, before, after)
	case isList && areLists, isList && after == nil, areLists && before == nil:
		c.lists(everything, beforeList, afterList)
	case !c.equalLeaves(before, after):
		c.report(before, after, false)
	}
}

// mapsOrSelector compares two maps. One can be missing.
func (c *comparison) mapsOrSelector(n *tree, before, after any) {
	beforeMap, _ := before.(map[string]any)
	afterMap, _ := after.(map[string]any)
	if c.isSelector() && (before == nil || after == nil) && len(beforeMap)+len(afterMap) == 0 {
		c.report(before, after, false)
		return
	}
	c.maps(n, beforeMap, afterMap)
}

// isFlat reports whether a map contains only scalars.
func isFlat(m map[string]any) bool {
	for _, value := range m {
		switch value.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// isSelector reports whether the present place is a label selector: an empty one differs from
// a missing one.
func (c *comparison) isSelector() bool {
	if len(c.place) == 0 {
		return false
	}
	key := c.place[len(c.place)-1].key
	return (strings.HasSuffix(key, "Selector") || key == "selector") && key != "nodeSelector"
}

func (c *comparison) maps(n *tree, before, after map[string]any) {
	for _, key := range differentKeys(n, before, after) {
		secret := c.isSecret && len(c.place) == 0 && (key == "data" || key == "stringData") ||
			isSecretField(before, key) || isSecretField(after, key) ||
			len(c.place) > 0 && isSecretKey(c.place[len(c.place)-1].key, key)
		c.within(place{key: key}, secret, func() { c.compare(n.at(key), before[key], after[key]) })
	}
}

// within calls f for a field or entry at the present place.
func (c *comparison) within(p place, secret bool, f func()) {
	c.place = append(c.place, p)
	if secret {
		c.secret++
		defer func() { c.secret-- }()
	}
	f()
	c.place = c.place[:len(c.place)-1]
}

// differentKeys returns the keys that n selects and whose values may differ, sorted.
func differentKeys(n *tree, before, after map[string]any) []string {
	var keys []string
	add := func(key string) {
		if n.at(key) != nil && !sameScalar(before[key], after[key]) {
			keys = append(keys, key)
		}
	}
	for key := range before {
		add(key)
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			add(key)
		}
	}
	slices.Sort(keys)
	return keys
}

// sameScalar reports whether two values are the same scalar, or both are missing.
func sameScalar(a, b any) bool {
	if isCollection(a) || isCollection(b) {
		return false
	}
	return scalar(a) == scalar(b)
}

func isCollection(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// equalLeaves compares two values that are not both maps or both lists.
func (c *comparison) equalLeaves(a, b any) bool {
	switch {
	case isEmpty(a, 0) && isEmpty(b, 0):
		return !c.isSelector() || (a == nil) == (b == nil)
	case isCollection(a) || isCollection(b):
		return false
	}
	return scalar(a) == scalar(b) || c.isQuantity() && equalQuantities(scalar(a), scalar(b))
}

// isEmpty reports whether a value is missing, or a map or list without values.
func isEmpty(value any, depth int) bool {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if depth > maxDepth || !isEmpty(v[key], depth+1) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return scalar(value) == nil
}

// isQuantity reports whether the present place contains a quantity.
func (c *comparison) isQuantity() bool {
	if len(c.place) < 2 {
		return false
	}
	switch c.place[len(c.place)-2].key {
	case "limits", "requests", "capacity", "allocatable", "hard", "used":
		return true
	}
	return false
}

func equalQuantities(a, b any) bool {
	x, ok := quantity(a)
	y, valid := quantity(b)
	return ok && valid && x.Cmp(y) == 0
}

// quantity parses a quantity without an exponent, whose value could be huge.
func quantity(value any) (resource.Quantity, bool) {
	text := valueText(value)
	if len(text) > maxQuantity || strings.ContainsAny(strings.TrimRight(text, "Ei"), "eE") {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// equal reports whether two values are the same in every detail. It returns false if it has
// compared maxTrim values.
func (c *comparison) equal(a, b any, depth int) bool {
	if c.trim--; c.trim < 0 || depth > maxDepth {
		return false
	}
	same := func(x, y any) bool { return c.equal(x, y, depth+1) }
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, same)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	}
	return sameScalar(a, b)
}

// report adds a difference at the present place.
func (c *comparison) report(before, after any, entry bool) {
	if len(c.found) >= c.limit {
		c.more++
		return
	}
	d := Difference{
		Field: fieldText(c.place), Subject: subject(c.place),
		places: slices.Clone(c.place),
		Added:  before == nil, Removed: after == nil, Entry: entry, Hidden: c.secret > 0,
	}
	if !d.Hidden {
		d.From, d.To, d.Hidden = shortTexts(before, after)
	}
	c.found = append(c.found, d)
}

// fieldText returns the concrete path of a place.
func fieldText(places []place) string {
	var b strings.Builder
	for i, p := range places {
		if b.Len() > maxField {
			break
		}
		key := plaintext.Line(plaintext.Cut(p.key, maxKey))
		switch {
		case p.kind != field && !strings.ContainsAny(key, `[]" `) && key != "":
			b.WriteString("[" + key + "]")
		case p.kind != field || !isName(key):
			b.WriteString("[" + strconv.Quote(key) + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return plaintext.Cut(b.String(), maxField)
}
