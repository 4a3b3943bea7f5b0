package fields

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// ordered are the lists whose order has a meaning although their entries have keys.
var ordered = []string{"command", "args", "initContainers"}

// lists compares what entries selects of the entries of two lists.
func (c *comparison) lists(entries *tree, before, after []any) {
	if len(before) == 0 && len(after) == 0 {
		return
	}
	if entries.all && areScalars(before) && areScalars(after) {
		c.scalars(before, after)
		return
	}
	if key := commonKey(before, after); key != nil {
		c.keyed(entries, before, after, key)
		return
	}
	c.indexed(entries, before, after)
}

func (c *comparison) isOrdered() bool {
	return len(c.place) > 0 && slices.Contains(ordered, c.place[len(c.place)-1].key)
}

func areScalars(list []any) bool { return !slices.ContainsFunc(list, isCollection) }

// scalars compares two lists of scalars as sets that can contain a value several times.
// Removed and added values form pairs in their order.
func (c *comparison) scalars(before, after []any) {
	removed, added := without(before, after), without(after, before)
	if len(removed)+len(added) == 0 {
		if c.isOrdered() && !slices.EqualFunc(before, after, sameScalar) {
			c.report(before, after, false)
		}
		return
	}
	for i := range max(len(removed), len(added)) {
		var from, to any
		index, secret := 0, false
		if i < len(removed) {
			index = removed[i]
			from, secret = before[index], followsSecretFlag(before, index)
		}
		if i < len(added) {
			index = added[i]
			to, secret = after[index], secret || followsSecretFlag(after, index)
		}
		c.within(place{key: strconv.Itoa(index), kind: scalarEntry}, secret, func() {
			c.report(from, to, from == nil || to == nil)
		})
	}
}

// without returns the indexes of the values of a list that another list does not contain.
func without(list, other []any) (found []int) {
	counts := make(map[any]int, len(other))
	for _, value := range other {
		counts[scalar(value)]++
	}
	for i, value := range list {
		key := scalar(value)
		if counts[key]--; counts[key] < 0 && key != nil {
			found = append(found, i)
		}
	}
	return found
}

// commonKey returns the first key of identities that identifies all entries of both lists,
// or nil.
func commonKey(before, after []any) []string {
	for _, key := range identities {
		if isUnique(before, key) && isUnique(after, key) {
			return key
		}
	}
	return nil
}

func isUnique(list []any, key []string) bool {
	seen := make(map[identity]bool, len(list))
	for _, entry := range list {
		id, ok := identify(entry, key)
		if !ok || seen[id] {
			return false
		}
		seen[id] = true
	}
	return true
}

// identity contains the values of a key.
type identity [3]any

// identify returns the values of a key, and false if the first is missing.
func identify(entry any, key []string) (id identity, ok bool) {
	m, _ := entry.(map[string]any)
	for i, name := range key {
		id[i] = scalar(m[name])
		if name == "protocol" {
			id[i] = cmp.Or(id[i], any("TCP"))
		}
	}
	return id, id[0] != nil
}

// String returns the values, separated by slashes.
func (id identity) String() string {
	var texts []string
	for _, value := range id {
		if value != nil {
			texts = append(texts, valueText(value))
		}
	}
	return strings.Join(texts, "/")
}

// keyed compares lists whose entries have a unique key.
func (c *comparison) keyed(entries *tree, before, after []any, key []string) {
	old := make(map[identity]any, len(before))
	for _, entry := range before {
		id, _ := identify(entry, key)
		old[id] = entry
	}
	kept := make(map[identity]bool, len(after))
	var order []any // of the entries that are in both lists
	for _, entry := range after {
		id, _ := identify(entry, key)
		if previous, ok := old[id]; ok {
			kept[id] = true
			order = append(order, previous)
			c.within(place{key: id.String(), kind: keyEntry}, false, func() { c.compare(entries, previous, entry) })
			continue
		}
		c.oneSided(entries, place{key: id.String(), kind: keyEntry}, nil, entry)
	}
	var oldOrder []any
	for _, entry := range before {
		id, _ := identify(entry, key)
		if kept[id] {
			oldOrder = append(oldOrder, entry)
			continue
		}
		c.oneSided(entries, place{key: id.String(), kind: keyEntry}, entry, nil)
	}
	if entries.all && c.isOrdered() {
		c.reportOrder(oldOrder, order, key)
	}
}

// reportOrder reports if entries with a key have another order.
func (c *comparison) reportOrder(before, after []any, key []string) {
	ids := func(list []any) (ids []any) {
		for _, entry := range list {
			id, _ := identify(entry, key)
			ids = append(ids, id.String())
		}
		return ids
	}
	from, to := ids(before), ids(after)
	if !slices.Equal(from, to) {
		c.report(from, to, false)
	}
}

// oneSided reports an entry that is in one list only, if it contains selected fields.
func (c *comparison) oneSided(entries *tree, p place, before, after any) {
	entry := before
	if entry == nil {
		entry = after
	}
	if !entries.all && isEmpty(entries.project(entry), 0) {
		return
	}
	c.within(p, false, func() { c.report(before, after, true) })
}

// indexed compares lists by index. If their lengths differ, it skips equal entries at both
// ends, so that an entry that is inserted or removed is one difference.
func (c *comparison) indexed(entries *tree, before, after []any) {
	start := 0
	if len(before) != len(after) {
		for start < min(len(before), len(after)) && c.equal(before[start], after[start], 0) {
			start++
		}
		for len(before) > start && len(after) > start && c.equal(before[len(before)-1], after[len(after)-1], 0) {
			before, after = before[:len(before)-1], after[:len(after)-1]
		}
	}
	for i := start; i < max(len(before), len(after)); i++ {
		p := place{key: strconv.Itoa(i), kind: indexEntry}
		switch {
		case i >= len(before):
			c.oneSided(entries, p, nil, after[i])
		case i >= len(after):
			c.oneSided(entries, p, before[i], nil)
		default:
			c.within(p, false, func() { c.compare(entries, before[i], after[i]) })
		}
	}
}
