package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Difference is one difference between two states of an object.
type Difference struct {
	// Name is the changed property: "phase", "image app", or a path such as
	// "spec.suspend".
	Name string `json:"what"`
	// From and To are the former and the present value; nil if there is none. They are
	// equal if only Note has changed.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Note explains the present value. For a hidden value it is "added", "changed" or
	// "removed".
	Note string `json:"note,omitempty"`
}

// Differences returns the differences between two states of an object, the most
// important first. It includes bookkeeping only if nothing else has changed, and never
// the resourceVersion.
func Differences(from, to *Object) []Difference {
	var ranks [rankCount][]Difference
	views := viewsOf(from.Object, to.Object)
	ranks[rankView] = views.differences()
	for _, p := range changedFields(from.Object, to.Object) {
		rank, what := rankBookkeeping, p.at.String()
		if !views.cover(p.at) {
			rank, what = classify(p.at)
		}
		ranks[rank] = append(ranks[rank], Difference{Name: what, From: p.from, To: p.to})
	}
	ranks[rankHidden] = differencesOfHidden(from.hidden, to.hidden)
	if important := slices.Concat(ranks[:rankBookkeeping]...); len(important) > 0 {
		return important
	}
	return ranks[rankBookkeeping]
}

// The notes of hidden values.
const (
	wasAdded   = "added"
	wasChanged = "changed"
	wasRemoved = "removed"
)

func differencesOfHidden(from, to map[string]digest) []Difference {
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(sets.KeySet(from).Union(sets.KeySet(to)))) {
		former, had := from[name]
		present, has := to[name]
		switch {
		case !had:
			all = append(all, Difference{Name: name, Note: wasAdded})
		case !has:
			all = append(all, Difference{Name: name, Note: wasRemoved})
		case former != present:
			all = append(all, Difference{Name: name, Note: wasChanged})
		}
	}
	return all
}

// view summarizes several fields of an object in the words that kubectl uses.
type view struct {
	// covers are the fields that the view replaces.
	covers []pattern
	// facts returns nothing for an object to which the view does not apply.
	facts func(object map[string]any) []fact
}

// fact is one statement of a view.
type fact struct {
	what  string
	value any
	note  string
}

// allViews are the views, in the order of the output.
var allViews = []view{lifecycle, readiness, containers, conditions}

// viewed are the facts of two states of an object, by view.
type viewed []struct {
	view
	from, to []fact
}

func viewsOf(from, to map[string]any) viewed {
	all := make(viewed, len(allViews))
	for i, v := range allViews {
		all[i].view, all[i].from, all[i].to = v, v.facts(from), v.facts(to)
	}
	return all
}

// cover reports whether a view replaces the field at a path.
func (all viewed) cover(at path) bool {
	for _, v := range all {
		if len(v.from)+len(v.to) > 0 && slices.ContainsFunc(v.covers, func(p pattern) bool { _, ok := p.match(at); return ok }) {
			return true
		}
	}
	return false
}

func (all viewed) differences() []Difference {
	var found []Difference
	for _, v := range all {
		found = append(found, differencesOfFacts(v.from, v.to)...)
	}
	return found
}

func differencesOfFacts(from, to []fact) []Difference {
	former, present := byWhat(from), byWhat(to)
	var all []Difference
	for _, f := range to {
		if was := former[f.what]; was != f {
			all = append(all, Difference{Name: f.what, From: was.value, To: f.value, Note: f.note})
		}
	}
	gone := sets.KeySet(former).Difference(sets.KeySet(present))
	for _, what := range slices.Sorted(maps.Keys(gone)) {
		all = append(all, Difference{Name: what, From: former[what].value})
	}
	return all
}

func byWhat(facts []fact) map[string]fact {
	all := make(map[string]fact, len(facts))
	for _, f := range facts {
		all[f.what] = f
	}
	return all
}

// field returns a field of an object, or nil if there is none.
func field(object map[string]any, at ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, at...) // nil if a type is wrong
	return value
}

func text(object map[string]any, at ...string) string {
	s, _ := field(object, at...).(string)
	return s
}

func number(object map[string]any, at ...string) int64 {
	n, _ := field(object, at...).(int64)
	return n
}

func list(object map[string]any, at ...string) []any {
	l, _ := field(object, at...).([]any)
	return l
}

// lifecycle shows that an object is being deleted.
var lifecycle = view{
	covers: []pattern{
		parsePattern("metadata deletionTimestamp"),
		parsePattern("metadata deletionGracePeriodSeconds"),
	},
	facts: func(object map[string]any) []fact {
		if field(object, "metadata", "deletionTimestamp") == nil {
			return nil
		}
		return []fact{{what: "deletion", note: "requested"}}
	},
}

// readiness shows the ready and the desired count, like the READY column of kubectl.
var readiness = view{
	covers: []pattern{
		parsePattern("status readyReplicas"),
		parsePattern("status availableReplicas"),
		parsePattern("status unavailableReplicas"),
		parsePattern("status numberReady"),
		parsePattern("status numberAvailable"),
		parsePattern("status numberUnavailable"),
	},
	facts: func(object map[string]any) []fact {
		ready := countReady(object)
		if ready == "" {
			return nil
		}
		return []fact{{what: "ready", value: ready}}
	},
}

// replicated are the kinds that omit status.readyReplicas if it is 0.
var replicated = sets.New("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")

// countReady returns a text like "1/3". If it does not know how many are desired, it returns only
// the ready count. It returns "" for an object without either.
func countReady(object map[string]any) string {
	ready := number(object, "status", "readyReplicas")
	switch kind := text(object, "kind"); {
	case kind == "Pod":
		for _, status := range list(object, "status", "containerStatuses") {
			if s, _ := status.(map[string]any); s["ready"] == true {
				ready++
			}
		}
		return fmt.Sprintf("%d/%d", ready, len(list(object, "spec", "containers")))
	case kind == "DaemonSet":
		return fmt.Sprintf("%d/%d", number(object, "status", "numberReady"), number(object, "status", "desiredNumberScheduled"))
	case !replicated.Has(kind) && field(object, "status", "readyReplicas") == nil:
		return ""
	case kind == "AppService":
		return fmt.Sprintf("%d/%d", ready, number(object, "spec", "size"))
	case replicated.Has(kind), field(object, "spec", "replicas") != nil:
		return fmt.Sprintf("%d/%d", ready, number(object, "spec", "replicas"))
	}
	return fmt.Sprint(ready)
}

// conditions shows the status conditions, with reason and message.
var conditions = view{
	covers: []pattern{parsePattern("status conditions **")},
	facts: func(object map[string]any) []fact {
		all, wellFormed := byKey(list(object, "status", "conditions"), "type")
		if !wellFormed {
			return nil
		}
		var facts []fact
		for _, key := range slices.Sorted(maps.Keys(all)) {
			c, _ := all[key].(map[string]any)
			facts = append(facts, fact{
				what: text(c, "type"), value: text(c, "status"),
				note: joined(": ", text(c, "reason"), text(c, "message")),
			})
		}
		return facts
	},
}

// containers shows the states of a pod's containers, and the sum of their restarts.
var containers = view{
	covers: []pattern{
		parsePattern("status containerStatuses **"),
		parsePattern("status initContainerStatuses **"),
		parsePattern("status ephemeralContainerStatuses **"),
	},
	facts: func(object map[string]any) []fact {
		if text(object, "kind") != "Pod" {
			return nil
		}
		var facts []fact
		var restarts int64
		for _, field := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
			for _, status := range list(object, "status", field) {
				s, _ := status.(map[string]any)
				restarts += number(s, "restartCount")
				facts = append(facts, fact{what: "container " + text(s, "name"), value: stateOf(s)})
			}
		}
		return append(facts, fact{what: "restarts", value: restarts})
	},
}

// stateOf returns a container's state as text: "running", "waiting: ErrImagePull",
// "terminated: OOMKilled, exit code 137".
func stateOf(status map[string]any) string {
	state, _ := status["state"].(map[string]any)
	for _, kind := range []string{"running", "waiting", "terminated"} {
		details, ok := state[kind].(map[string]any)
		if !ok {
			continue
		}
		var exit string
		if code, ok := details["exitCode"].(int64); ok && code != 0 {
			exit = fmt.Sprintf("exit code %d", code)
		}
		return joined(": ", kind, joined(", ", text(details, "reason"), exit))
	}
	return "waiting" // the API's default if no state is set
}

// joined joins the non-empty texts.
func joined(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), separator)
}

// stateOfObject returns the state of an object, as differences whose former and present values are
// equal. The state consists of the phase or state, and the ready count. Without these, it is the
// condition Ready, or else the conditions that are true.
func stateOfObject(object map[string]any) []Difference {
	var facts []fact
	add := func(what, value, note string) {
		if value != "" {
			facts = append(facts, fact{what, value, note})
		}
	}
	add("phase", text(object, "status", "phase"), "")
	add("state", text(object, "status", "state"), text(object, "status", "reason"))
	if facts = append(facts, readiness.facts(object)...); len(facts) == 0 {
		facts = conditions.facts(object)
		isReady := func(f fact) bool { return f.what == "Ready" }
		hasReady := slices.ContainsFunc(facts, isReady)
		facts = slices.DeleteFunc(facts, func(f fact) bool { return hasReady && !isReady(f) || !hasReady && f.value != "True" })
	}
	for _, name := range []string{"suspend", "unschedulable"} {
		if field(object, "spec", name) == true {
			facts = append(facts, fact{what: name, value: true})
		}
	}
	var all []Difference
	for _, f := range append(facts, lifecycle.facts(object)...) {
		all = append(all, Difference{Name: f.what, From: f.value, To: f.value, Note: f.note})
	}
	return all
}

// The ranks of differences: the first rank is shown first.
const (
	rankFirst = iota
	rankView
	rankOther
	rankMeta
	rankHidden
	rankBookkeeping // shown only if there is no difference of a rank above
	rankNever
	rankCount
)

// knownFields are the fields with a short name, and the unimportant fields. The first
// pattern that matches applies. A * in a name is the step that the pattern's last *
// matched.
var knownFields = []struct {
	at   pattern
	rank int
	name string // the path, if empty
}{
	{parsePattern("status phase"), rankFirst, "phase"},
	{parsePattern("spec replicas"), rankFirst, "replicas"},
	{parsePattern("** containers * image"), rankFirst, "image *"},
	{parsePattern("** initContainers * image"), rankFirst, "image *"},
	{parsePattern("spec nodeName"), rankFirst, "node"},
	{parsePattern("spec unschedulable"), rankFirst, "unschedulable"},
	{parsePattern("spec suspend"), rankFirst, "suspend"},
	{parsePattern("status podIP"), rankOther, "IP"},
	{parsePattern("status replicas"), rankOther, "current replicas"},
	{parsePattern("status updatedReplicas"), rankOther, "updated replicas"},
	{parsePattern("metadata labels *"), rankMeta, "label *"},
	{parsePattern("metadata annotations *"), rankMeta, "annotation *"},
	{parsePattern("metadata resourceVersion"), rankNever, ""},
	{parsePattern("metadata generation"), rankBookkeeping, ""},
	{parsePattern("** observedGeneration"), rankBookkeeping, ""},
	{parsePattern("** lastTransitionTime"), rankBookkeeping, ""},
	{parsePattern("** lastUpdateTime"), rankBookkeeping, ""},
	{parsePattern("** lastHeartbeatTime"), rankBookkeeping, ""},
	{parsePattern("** lastProbeTime"), rankBookkeeping, ""},
	{parsePattern("** imageID"), rankBookkeeping, ""},
	{parsePattern("** containerID"), rankBookkeeping, ""},
	{parsePattern("status startTime"), rankBookkeeping, ""},
	{parsePattern("status hostIP"), rankBookkeeping, ""},
	{parsePattern("status hostIPs"), rankBookkeeping, ""},
	{parsePattern("status podIPs"), rankBookkeeping, ""},
}

// classify returns the rank and the name of the field at a path.
func classify(at path) (rank int, name string) {
	for _, n := range knownFields {
		last, ok := n.at.match(at)
		if !ok {
			continue
		}
		if n.name == "" {
			return n.rank, at.String()
		}
		return n.rank, strings.ReplaceAll(n.name, one, last)
	}
	return rankOther, at.String()
}
