package match

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Grouping defines which occurrences share a message, and how often it is sent.
type Grouping struct {
	// Wait is how long the first message of a group waits for more occurrences. Interval
	// is the minimum time between two messages of a group.
	Wait, Interval time.Duration
	// Quiet is how long nothing must happen until a group is resolved, 0 if it never is.
	Quiet time.Duration
	// open is spec.resolve.openSeconds. awaitsNode: the alarm matches the Event that resolves the
	// group of a Node by default.
	open       time.Duration
	awaitsNode bool

	keys []groupingKey
	// byMatch: spec.resolve.match replaces the reasons that resolve groups by default.
	byMatch bool
	// needsObject: a key is a label, an annotation or the owner.
	needsObject bool
}

// groupingKey is an entry of spec.group.by.
type groupingKey struct {
	text string
	// value returns false if the object lacks the label or the annotation.
	value func(event *alarm.Event, object *alarm.Object) (string, bool)
}

// eventKeys are the keys that need only the Event.
var eventKeys = map[string]func(event *alarm.Event) string{
	"regarding.kind":      func(e *alarm.Event) string { return e.Regarding.Kind },
	keyOfNamespace:        func(e *alarm.Event) string { return e.Regarding.Namespace },
	"regarding.name":      func(e *alarm.Event) string { return e.Regarding.Name },
	"reason":              func(e *alarm.Event) string { return e.Reason },
	"type":                func(e *alarm.Event) string { return e.Type },
	"reportingController": func(e *alarm.Event) string { return e.ReportingController },
}

// keyOfOwner is the key of the workload that an object belongs to. The value of an object that belongs
// to none is the object itself. An Event of a Deployment is therefore in the group of its Pods.
const keyOfOwner = "object.owner"

// Defaults of spec.group, in seconds. Manifests that did not pass through an API server
// need them.
const (
	defaultWait     = 5
	defaultInterval = 300
)

// keyOfAlarm is the key of the only group of an alarm without spec.group.by. Its value is the name
// of the alarm. Users cannot choose it.
const keyOfAlarm = "alarm"

// compileGrouping compiles the grouping of the alarm with a name.
func compileGrouping(name string, of *v1alpha1.AlarmSpec) (*Grouping, error) {
	spec, resolve := of.Group, of.Resolve
	if spec == nil && resolve != nil {
		return nil, &CompileError{Reason: v1alpha1.ReasonInvalidGroup, Field: "spec.resolve", Message: "only groups can be resolved: set spec.group"}
	}
	if spec == nil {
		return nil, nil
	}
	g := &Grouping{Wait: seconds(spec.WaitSeconds, defaultWait), Interval: seconds(spec.IntervalSeconds, defaultInterval)}
	g.awaitsNode = slices.ContainsFunc(of.Match, func(m v1alpha1.EventMatch) bool { return slices.Contains(m.Reasons, nodeReady) })
	if resolve != nil {
		g.Quiet, g.byMatch, g.open = seconds(resolve.QuietSeconds, 0), len(resolve.Match) > 0, seconds(resolve.OpenSeconds, 0)
	}
	if len(spec.By) == 0 {
		g.keys = []groupingKey{{keyOfAlarm, func(*alarm.Event, *alarm.Object) (string, bool) { return name, true }}}
	}
	by := spec.By
	if slices.Contains(by, keyOfOwner) && !slices.Contains(by, keyOfNamespace) { // workloads of two namespaces can have one name
		by = append(slices.Clone(by), keyOfNamespace)
	}
	for i, text := range by {
		value := valueFunc(text)
		if value == nil {
			return nil, &CompileError{
				Reason: v1alpha1.ReasonInvalidGroup, Field: fmt.Sprintf("spec.group.by[%d]", i),
				Message: fmt.Sprintf("unknown key %q: use a field of the Event, object.owner, object.labels[NAME] or object.annotations[NAME]", plaintext.CutRunes(text, message.MaxTitleLength)),
			}
		}
		g.keys = append(g.keys, groupingKey{text, value})
		g.needsObject = g.needsObject || eventKeys[text] == nil
	}
	return g, nil
}

// groupByObject returns the grouping of states if there is no spec.group: each object has a
// group, and its messages do not wait.
func groupByObject() *Grouping {
	g := &Grouping{}
	for _, text := range keysOfObject {
		g.keys = append(g.keys, groupingKey{text, valueFunc(text)})
	}
	return g
}

func seconds(n *int32, byDefault int32) time.Duration {
	if n == nil {
		n = &byDefault
	}
	return time.Duration(*n) * time.Second
}

// valueFunc returns the function that returns the value of a key, or nil if the key does
// not exist.
func valueFunc(key string) func(*alarm.Event, *alarm.Object) (string, bool) {
	if value, ok := eventKeys[key]; ok {
		return func(e *alarm.Event, _ *alarm.Object) (string, bool) { return value(e), true }
	}
	if key == keyOfOwner {
		return func(e *alarm.Event, o *alarm.Object) (string, bool) {
			if o.Owner.Name == "" {
				return e.Regarding.Kind + "/" + e.Regarding.Name, true
			}
			return o.Owner.Kind + "/" + o.Owner.Name, true
		}
	}
	if name, ok := bracketed(key, "object.labels["); ok {
		return func(_ *alarm.Event, o *alarm.Object) (string, bool) { return valueOf(o.Metadata.Labels, name) }
	}
	if name, ok := bracketed(key, "object.annotations["); ok {
		return func(_ *alarm.Event, o *alarm.Object) (string, bool) { return valueOf(o.Metadata.Annotations, name) }
	}
	return nil
}

func valueOf(all map[string]string, name string) (value string, ok bool) {
	value, ok = all[name]
	return value, ok
}

func bracketed(key, prefix string) (name string, ok bool) {
	name, begins := strings.CutPrefix(key, prefix)
	name, ends := strings.CutSuffix(name, "]")
	return name, begins && ends && name != ""
}

// keyOfForeign is a further key of Events about objects of another namespace, which tenants can
// write. They have groups of their own, and resolve none of the object.
const keyOfForeign = "event.namespace"

const keyOfNamespace = "regarding.namespace"

// keysOfObject are the keys that identify an object.
var keysOfObject = []string{"regarding.kind", keyOfNamespace, "regarding.name"}

// Lacks returns the first key that is a label or an annotation which the object lacks, or nothing.
func (g *Grouping) Lacks(event *alarm.Event, object *alarm.Object) string {
	for _, k := range g.keys {
		if _, exists := k.value(event, object); !exists {
			return k.text
		}
	}
	return ""
}

// Values returns the values that all occurrences of the group share. An object that lacks a label or
// an annotation has a group of its own: it has nothing in common with others that lack it.
func (g *Grouping) Values(event *alarm.Event, object *alarm.Object) []alarm.GroupValue {
	values := make([]alarm.GroupValue, 0, len(g.keys)+1)
	for _, k := range g.keys {
		value, _ := k.value(event, object)
		values = append(values, alarm.GroupValue{Key: k.text, Value: plaintext.CutRunes(plaintext.Line(value), message.MaxFieldLength)})
	}
	if g.Lacks(event, object) != "" {
		for _, key := range keysOfObject {
			if !g.has(key) {
				values = append(values, alarm.GroupValue{Key: key, Value: plaintext.CutRunes(plaintext.Line(eventKeys[key](event)), message.MaxFieldLength)})
			}
		}
	}
	if event.Namespace != "" && !Trusted(event) {
		values = append(values, alarm.GroupValue{Key: keyOfForeign, Value: event.Namespace})
	}
	return values
}

// has reports whether spec.group.by contains a key.
func (g *Grouping) has(key string) bool {
	return slices.ContainsFunc(g.keys, func(k groupingKey) bool { return k.text == key })
}

// Resolves reports whether an Event resolves its group by default: a Node is ready again, or
// one of our objects recovered. It is always false if the group is not about one object, or
// if the alarm has Events of its own for that.
func (g *Grouping) Resolves(event *alarm.Event) bool {
	return g.resolvesByDefault(event) &&
		(event.Reason == v1alpha1.ReasonRecovered || event.Reason == nodeReady && event.Regarding.Kind == "Node")
}

// nodeReady is the reason of the Event that ends the problem of a Node.
const nodeReady = "NodeReady"

// resolvesByDefault reports whether the group of an Event can be resolved by default.
func (g *Grouping) resolvesByDefault(event *alarm.Event) bool {
	return !g.byMatch && g.has("regarding.kind") && g.has("regarding.name") &&
		(event.Regarding.Namespace == "" || g.has(keyOfNamespace))
}

// maxOpen is how long the group of a Node stays open for the Event that resolves it.
const maxOpen = 24 * time.Hour

// Open returns how long the group of an Event stays open after it, 0 if as long as any group.
func (g *Grouping) Open(event *alarm.Event) time.Duration {
	if g.open == 0 && g.awaitsNode && event.Regarding.Kind == "Node" && g.resolvesByDefault(event) {
		return maxOpen
	}
	return g.open
}

// TrustedNamespace returns the namespace of the Event and of its regarding object. It
// returns false if they differ, or if the object has none.
func TrustedNamespace(event *alarm.Event) (string, bool) {
	namespace := event.Regarding.Namespace
	return namespace, namespace != "" && namespace == event.Namespace
}

// Trusted reports whether an Event is in the namespace of its regarding object, or where
// Kubernetes writes the Events of cluster-scoped objects.
func Trusted(event *alarm.Event) bool { return !event.IsForeign() }
