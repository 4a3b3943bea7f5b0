package fields

import (
	"maps"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// LastWrite returns the field manager and the time of the newest write of an object, except to its
// status. Both are zero if they are unknown. Clients choose them.
func LastWrite(object map[string]any) (manager string, at time.Time) {
	for _, w := range writesOf(object) {
		if w.subresource != "status" && !w.at.Before(at) {
			manager, at = w.manager, w.at
		}
	}
	return manager, at
}

// WriteOf returns the field manager and the time of the write that changed an object. This is the
// newest write of a field that differs. One to the status counts only if no other does. Both are zero
// if managedFields names no such write. It does not name who removed a field. Clients choose both.
//
// A write to the subresource scale has no time. It is the newest, because the next write of the
// field takes its entry away.
func WriteOf(object map[string]any, differences []Difference) (manager string, at time.Time) {
	var newest write
	var most ownership
	for _, w := range writesOf(object) {
		owned := w.owns(differences)
		if owned > most || owned == most && most > none && w.isAfter(&newest) {
			newest, most = w, owned
		}
	}
	return newest.manager, newest.at
}

// UnchangedSince returns the time of the newest write of an object. It is zero if the time of a
// write is unknown, for example of one to the subresource scale.
func UnchangedSince(object map[string]any) (newest time.Time) {
	for _, w := range writesOf(object) {
		if w.at.IsZero() {
			return time.Time{}
		}
		if w.at.After(newest) {
			newest = w.at
		}
	}
	return newest
}

// write is an entry of managedFields. at is zero if the entry has no time. fields is its fieldsV1.
type write struct {
	at                   time.Time
	manager, subresource string
	fields               any
}

func writesOf(object map[string]any) []write {
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var writes []write
	for _, e := range entries {
		entry, isEntry := e.(map[string]any)
		if !isEntry {
			continue
		}
		w := write{fields: entry["fieldsV1"]}
		w.manager, _ = entry["manager"].(string)
		w.subresource, _ = entry["subresource"].(string)
		text, _ := entry["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			w.at = at
		}
		writes = append(writes, w)
	}
	return writes
}

// isAfter reports whether w is the more recent write of two that set a field that differs.
func (w *write) isAfter(other *write) bool {
	const status, scale = "status", "scale"
	switch {
	case w.subresource == status || other.subresource == status:
		return other.subresource == status && (w.subresource != status || w.at.After(other.at))
	case w.subresource == scale || other.subresource == scale:
		return w.subresource == scale
	}
	return w.at.After(other.at)
}

// ownership says whether a fieldsV1 contains a field: not, only as a field around it without entries,
// or exactly. A field without entries is a list or map that can only be written as a whole. But it
// is also what is left of a map if other managers have written all its entries.
type ownership int

const (
	none ownership = iota
	around
	exact
)

// owns returns the most that the write owns of the fields that differ.
func (w *write) owns(differences []Difference) (most ownership) {
	for i := range differences {
		if d := &differences[i]; !d.Removed {
			most = max(most, owns(w.fields, d.places))
		}
	}
	return most
}

// owns returns whether a fieldsV1 contains the field at a place.
func owns(set any, places []place) (most ownership) {
	fields, isMap := set.(map[string]any)
	switch {
	case !isMap:
		return none
	case len(places) == 0:
		return exact
	case len(fields) == 0:
		return around
	case places[0].kind == field:
		return owns(fields["f:"+places[0].key], places[1:])
	}
	for key, below := range fields {
		if isEntry(key, places[0]) {
			most = max(most, owns(below, places[1:]))
		}
	}
	return most
}

// isEntry reports whether a key of a fieldsV1 means the entry of a list. Its form is k:KEY with the
// fields that identify the entry, v:VALUE, or i:INDEX.
func isEntry(key string, p place) bool {
	form, text, _ := strings.Cut(key, ":")
	if form != "k" {
		return form == "v" || form == "i"
	}
	var id map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &id) != nil {
		return false
	}
	var values []string
	for _, name := range slices.Sorted(maps.Keys(id)) {
		values = append(values, valueText(id[name]))
	}
	return strings.Join(values, "/") == p.key
}
