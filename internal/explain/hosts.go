package explain

import (
	"maps"
	"regexp"
	"slices"
)

// serviceHost matches the name of a Service in an address: NAME.NAMESPACE.svc, or a URL with
// NAME.NAMESPACE.
var serviceHost = regexp.MustCompile(`\b([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.svc\b|://([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:[:/]|$)`)

var addressInText = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)

// called returns the Services of the cluster whose addresses the message or the spec of an object contains.
func (q *inquiry) called() []reference {
	all := q.calledByText()
	eachText(q.custom().Object["spec"], 0, func(text string) { all = addHosts(all, text, false) })
	return all
}

// addHosts adds the Services whose names a text contains.
func addHosts(all []reference, text string, mustRun bool) []reference {
	for _, m := range serviceHost.FindAllStringSubmatch(text, maxReferences) {
		if len(all) < maxReferences {
			r := newReference(serviceKind, m[2]+m[4], m[1]+m[3], callsIt)
			r.mustRun = mustRun
			all = append(all, r)
		}
	}
	return all
}

// calledByText returns the Services of the cluster whose addresses the message of an object contains.
func (q *inquiry) calledByText() []reference {
	text := q.allText()
	all := addHosts(nil, text, true)
	if !noConnection.MatchString(text) {
		return all
	}
	for _, address := range addressInText.FindAllString(text, maxReferences) {
		if s := q.serviceAt(address); s != nil {
			all = append(all, newReference(serviceKind, s.Namespace, s.Name, callsIt).needed())
		}
	}
	return all
}

const callsIt = ", which it calls,"

// eachText calls visit for each text in a value.
func eachText(value any, depth int, visit func(string)) {
	const deepest = 6
	switch v := value.(type) {
	case string:
		visit(v)
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if depth < deepest {
				eachText(v[field], depth+1, visit)
			}
		}
	case []any:
		for _, item := range v[:min(len(v), maxConditions)] {
			if depth < deepest {
				eachText(item, depth+1, visit)
			}
		}
	}
}
