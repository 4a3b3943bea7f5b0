package pipeline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// widgetReader serves widgets, whose labels and annotations have the value confidential.
type widgetReader struct {
	mu    sync.Mutex
	err   error
	reads int
}

const confidential = "confidential"

func (r *widgetReader) Lookup(resource alarm.Resource) (alarm.Served, alarm.Unread) {
	if resource.Resource == "widgets" {
		return alarm.Served{Version: "v1", Kind: "Widget", Namespaced: true}, ""
	}
	return alarm.Served{}, ""
}

func (r *widgetReader) Get(_ context.Context, _ alarm.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	values := map[string]string{"team": confidential}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: values, Annotations: values}}, r.err
}

// noNodes are the Nodes of a cluster without any.
type noNodes struct{ enrich.Nodes }

func (noNodes) Count(context.Context) (int64, error) { return 0, nil }

// newNamed returns a pipeline that reads widgets.
func newNamed(t *testing.T, specs map[string]v1alpha1.AlarmSpec) (*Pipeline, *widgetReader) {
	t.Helper()
	p, reader := newParkingLot(t, &unreadables{}, specs), &widgetReader{}
	p.matcher.enricher = enrich.New("test", noNodes{}, nil).WithResources(reader)
	return p, reader
}

// aboutWidgets returns an occurrence about each widget.
func aboutWidgets(objects ...string) []alarm.Occurrence {
	occurrences := happened(objects...)
	for i := range occurrences {
		occurrences[i].Event.Regarding.APIVersion, occurrences[i].Event.Regarding.Kind = "example.com/v1", "Widget"
	}
	return occurrences
}

func naming(resource string, spec v1alpha1.AlarmSpec) v1alpha1.AlarmSpec {
	spec.ReadObjects = []v1alpha1.ChangeResource{{APIGroup: "example.com", Resource: resource}}
	return spec
}

// attempts are alarms that use everything of an object that alarms can use.
func attempts() map[string]v1alpha1.AlarmSpec {
	const value = "object.metadata.labels.team"
	text := func(expression string) v1alpha1.AlarmSpec {
		return v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}, Message: v1alpha1.AlarmMessage{Text: "${" + expression + "}"}}
	}
	selecting := text("event.reason")
	selecting.Match[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": confidential}}
	expressing := text("event.reason")
	expressing.Match[0].Expression = value + ` == "` + confidential + `"`
	grouped := text("event.reason")
	grouped.Group = &v1alpha1.AlarmGroup{By: []string{"object.labels[team]", "object.annotations[team]"}}
	return map[string]v1alpha1.AlarmSpec{
		"selector": selecting, "expression": expressing, "group": grouped,
		"label": text(value), "annotation": text("object.metadata.annotations.team"), "all labels": text(`"%s".format([object.metadata.labels])`),
	}
}

// An author who may not get widgets writes an alarm that does not name them. Then an alarm of
// others names them.
func TestAnObjectThatOneAlarmNamesIsInvisibleToOthers(t *testing.T) {
	specs := map[string]v1alpha1.AlarmSpec{}
	for name, spec := range attempts() {
		specs["a-"+name], specs["z-"+name] = spec, naming("gadgets", spec) // before and after the others
		specs["m-"+name] = naming("widgets", spec)
	}
	p, reader := newNamed(t, specs)
	found := map[string][]string{}
	for _, objects := range [][]string{{"shop/gear", "shop/gear"}, {"shop/cog"}} {
		evaluations, _, err := p.matcher.match(t.Context(), aboutWidgets(objects...), progress.Offsets{})
		must(t, err)
		for i := range evaluations {
			for _, e := range evaluations[i] {
				found[e.alarm.ID.Name] = append(found[e.alarm.ID.Name], fmt.Sprintf("%v %+v %v %v", e.outcome, e.message, e.by, e.err))
			}
		}
	}
	for name := range attempts() {
		selects := name == "selector" || name == "expression"
		got := found["m-"+name]
		if len(got) != 3 || !strings.HasPrefix(got[0], fmt.Sprint(match.Matched)) || !selects && !strings.Contains(got[0], confidential) {
			t.Errorf("%s: the alarm that names widgets has %q", name, got)
		}
		for _, attacker := range []string{"a-" + name, "z-" + name} {
			for _, got := range found[attacker] {
				if strings.Contains(got, confidential) || selects && !strings.HasPrefix(got, fmt.Sprint(match.Unresolved)) {
					t.Errorf("%s has %q", attacker, got)
				}
			}
		}
	}
	if reader.reads != 2 {
		t.Errorf("%d reads of two objects", reader.reads)
	}
}

// A label of the object must not choose the receivers of an alarm that does not see it.
func TestTheLabelOfANamedObjectChoosesNoReceiverOfOthers(t *testing.T) {
	p, _ := newNamed(t, nil)
	compiler, err := match.NewCompiler()
	must(t, err)
	for name, spec := range map[string]v1alpha1.AlarmSpec{"a": everything, "m": naming("widgets", everything), "z": naming("gadgets", everything)} {
		route := match.NewRoute("team", "default-"+name)
		route.Add("chosen-"+name, []string{confidential}, true)
		compiled, err := compiler.Compile(match.Definition{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: name}, UID: name, Spec: spec, Route: route})
		must(t, err)
		p.Alarms.Set(name, "1", compiled)
	}
	p.handleAll(t, aboutWidgets("shop/gear"))
	for receiver, want := range map[string]int64{"default-a": 1, "chosen-a": 0, "default-m": 0, "chosen-m": 1, "default-z": 1, "chosen-z": 0} {
		if got := p.countsOf(t, receiver).Matched; got != want {
			t.Errorf("%s gets %d messages, want %d", receiver, got, want)
		}
	}
}

func TestOnlyAlarmsThatNameTheResourceWaitForAnObjectThatCannotBeRead(t *testing.T) {
	selecting := attempts()["selector"]
	p, reader := newNamed(t, map[string]v1alpha1.AlarmSpec{"a": selecting, "m": naming("widgets", selecting), "n": naming("widgets", selecting)})
	reader.err = apierrors.NewTooManyRequestsError("slow down")
	p.handleAll(t, aboutWidgets("shop/gear"))
	if a, m := p.countsOf(t, "ClusterAlarm//a").Unresolved, p.countsOf(t, "ClusterAlarm//m"); a != 1 || m != (outbox.StatusCounts{}) {
		t.Errorf("%d are unresolved, want 1; and %+v", a, m)
	}
	if reader.reads != 1 {
		t.Errorf("%d reads for an Event, want one", reader.reads)
	}
	reader.err = nil
	p.matcher.enricher = enrich.New("test", noNodes{}, nil).WithResources(reader) // a moment later
	p.retryOnce(t)
	for name, want := range map[string]int64{"a": 0, "m": 1, "n": 1} {
		if got := p.countsOf(t, "ClusterAlarm//"+name).Matched; got != want {
			t.Errorf("%s matched %d Events after the retry, want %d", name, got, want)
		}
	}
}
