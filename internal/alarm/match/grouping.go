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

// Grouping says which occurrences are put into one message, and how often that is
// sent.
type Grouping struct {
	// Wait is how long a group's first message waits for more, Interval the least
	// time between two of its messages.
	Wait, Interval time.Duration

	keys []groupingKey
}

// groupingKey is an entry of spec.group.by.
type groupingKey struct {
	text  string
	value func(event *alarm.Event, object *alarm.Object) string
}

// eventKeys are the keys that the Event alone tells.
var eventKeys = map[string]func(event *alarm.Event) string{
	"regarding.kind":      func(e *alarm.Event) string { return e.Regarding.Kind },
	"regarding.namespace": func(e *alarm.Event) string { return e.Regarding.Namespace },
	"regarding.name":      func(e *alarm.Event) string { return e.Regarding.Name },
	"reason":              func(e *alarm.Event) string { return e.Reason },
	"type":                func(e *alarm.Event) string { return e.Type },
	"reportingController": func(e *alarm.Event) string { return e.ReportingController },
}

// The defaults of spec.group, for who does not ask the API server for them.
const (
	defaultWait     = 5
	defaultInterval = 300
)

func compileGrouping(spec *v1alpha1.AlarmGroup) (*Grouping, error) {
	if spec == nil {
		return nil, nil
	}
	g := &Grouping{Wait: seconds(spec.WaitSeconds, defaultWait), Interval: seconds(spec.IntervalSeconds, defaultInterval)}
	for i, text := range spec.By {
		value := valueFunc(text)
		if value == nil {
			return nil, &CompileError{
				Reason: v1alpha1.ReasonInvalidGroup, Field: fmt.Sprintf("spec.group.by[%d]", i),
				Message: fmt.Sprintf("there is no key %q", plaintext.CutRunes(text, message.MaxTitleLength)),
			}
		}
		g.keys = append(g.keys, groupingKey{text, value})
	}
	return g, nil
}

func seconds(n *int32, byDefault int32) time.Duration {
	if n == nil {
		n = &byDefault
	}
	return time.Duration(*n) * time.Second
}

// valueOf returns what finds the value of a key, nil if there is no such key.
func valueFunc(key string) func(*alarm.Event, *alarm.Object) string {
	if value, ok := eventKeys[key]; ok {
		return func(e *alarm.Event, _ *alarm.Object) string { return value(e) }
	}
	if name, ok := bracketed(key, "object.labels["); ok {
		return func(_ *alarm.Event, o *alarm.Object) string { return o.Metadata.Labels[name] }
	}
	if name, ok := bracketed(key, "object.annotations["); ok {
		return func(_ *alarm.Event, o *alarm.Object) string { return o.Metadata.Annotations[name] }
	}
	return nil
}

func bracketed(key, prefix string) (name string, ok bool) {
	name, begins := strings.CutPrefix(key, prefix)
	name, ends := strings.CutSuffix(name, "]")
	return name, begins && ends && name != ""
}

// Values are what an occurrence has in common with others of its group.
func (g *Grouping) Values(event *alarm.Event, object *alarm.Object) []alarm.GroupValue {
	values := make([]alarm.GroupValue, 0, len(g.keys))
	for _, k := range g.keys {
		values = append(values, alarm.GroupValue{Key: k.text, Value: plaintext.CutRunes(plaintext.Line(k.value(event, object)), message.MaxFieldLength)})
	}
	return values
}

// Resolves says whether an occurrence tells that what its group is about is over: a
// node is ready again, or an object of ours has recovered. That can be said only of a
// group that is about one object.
func (g *Grouping) Resolves(event *alarm.Event) bool {
	about := func(key string) bool {
		return slices.ContainsFunc(g.keys, func(k groupingKey) bool { return k.text == key })
	}
	if !about("regarding.kind") || !about("regarding.name") || event.Regarding.Namespace != "" && !about("regarding.namespace") {
		return false
	}
	return event.Reason == v1alpha1.ReasonRecovered || event.Reason == "NodeReady" && event.Regarding.Kind == "Node"
}
