package children

import (
	"reflect"
	"slices"
)

// Contains reports whether found contains all of wanted. found may contain more:
// defaults, changes by webhooks, list entries of other managers. A selector must be the same,
// because an additional label selects other objects. Both must be of the types that JSON
// decodes to. Entries of a list are identified by their merge key, as in
// server-side apply, or else by position.
func Contains(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		found, ok := found.(map[string]any)
		return ok && containsMap(found, wanted)
	case []any:
		found, ok := found.([]any)
		return ok && containsList(found, wanted)
	}
	return found == wanted
}

func containsMap(found, wanted map[string]any) bool {
	for key, value := range wanted {
		other, ok := found[key]
		if !ok || !Contains(other, value) || slices.Contains(selectors, key) && !reflect.DeepEqual(other, value) {
			return false
		}
	}
	return true
}

// selectors are fields that server-side apply replaces as a whole.
var selectors = []string{"selector", "labelSelector"}

func containsList(found, wanted []any) bool {
	key := identifierOf(wanted)
	if key == "" && len(found) != len(wanted) {
		return false
	}
	for i, entry := range wanted {
		if key == "" {
			if !Contains(found[i], entry) {
				return false
			}
			continue
		}
		if !containsEntry(found, entry.(map[string]any), key) {
			return false
		}
	}
	return true
}

// identifiers are merge keys, see
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy.
// mountPath goes first, because a mount also has the name of its volume.
var identifiers = []string{"mountPath", "uid", "name", "containerPort", "port"}

// identifierOf returns the first merge key that all entries have, or "".
func identifierOf(entries []any) string {
	for _, key := range identifiers {
		if len(entries) > 0 && allHave(entries, key) {
			return key
		}
	}
	return ""
}

func allHave(entries []any, key string) bool {
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok || fields[key] == nil {
			return false
		}
	}
	return true
}

// containsEntry tries all entries with the same key: a container can have the same port
// for TCP and UDP.
func containsEntry(found []any, wanted map[string]any, key string) bool {
	return slices.ContainsFunc(found, func(entry any) bool {
		fields, ok := entry.(map[string]any)
		return ok && fields[key] == wanted[key] && Contains(fields, wanted)
	})
}
