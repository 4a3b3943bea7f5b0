package cookbook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// trial is the test of one entry. All trials share the cluster.
type trial struct {
	*testing.T
	*cluster.Cluster
	sink  *sink.Sink
	entry entry
	// shortened are the texts of states in messages, each followed by that of the page.
	shortened []string
}

// run causes the near miss, and then the steps in order, each with a message of the page.
// The operator also reads their Events in this order.
func (tr *trial) run(r recipe) {
	tr.Helper()
	if len(r.steps) != len(tr.entry.messages) {
		tr.Fatalf("the page shows %d messages and the recipe has %d steps, want as many", len(tr.entry.messages), len(r.steps))
	}
	if r.before != nil {
		r.before(tr)
	}
	tr.activate()
	r.nearMiss(tr)
	for i, step := range r.steps {
		step(tr)
		tr.awaitMessage(i)
	}
	tr.awaitNight()
}

// awaitMessage waits for the i-th message of the page.
func (tr *trial) awaitMessage(i int) {
	tr.Helper()
	name, want := tr.entry.alarm.GetName(), tr.entry.messages[i]
	came := tr.sink.Wait(patience, func([]sink.Request) bool {
		return slices.ContainsFunc(messagesOf(tr.sink, name), func(m message.Message) bool {
			return want.MatchString(tr.textOf(m))
		})
	})
	if came {
		return
	}
	tr.Errorf("got no message that matches\n%s\nreceived:", want)
	for _, m := range messagesOf(tr.sink, name) {
		tr.Log(tr.textOf(m))
	}
	var events string
	if out, err := tr.Kubectl(tr.T, tr.RESTConfig())("describe", tr.entry.alarm.GetKind(), "-A", name); err == nil {
		events = out
	}
	tr.Fatal(events)
}

// until waits until the cluster meets a condition.
func (tr *trial) until(what string, condition func(context.Context) bool) {
	tr.Helper()
	over := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !condition(tr.Context()) {
		select {
		case <-tick.C:
		case <-over:
			tr.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// activate applies the alarm and waits until it is ready. It then replaces the times that a test
// cannot wait for. If the alarm has mutes, it is replaced by one without mutes, and a copy that
// is mute now. States need to last for shortly only.
func (tr *trial) activate() {
	tr.Helper()
	tr.apply(tr.entry.needs...)
	tr.apply(tr.entry.alarm)
	tr.ExpectReady(tr.T, object(tr.entry.alarm))
	awake := tr.entry.alarm.DeepCopy()
	tr.shorten(awake)
	unstructured.RemoveNestedField(awake.Object, "spec", "mute")
	tr.apply(awake)
	tr.ExpectReady(tr.T, object(awake))
	if mute(tr.entry) {
		night := tr.atNight()
		tr.apply(night)
		tr.ExpectReady(tr.T, object(night))
	}
}

// shortly is how long states last in the test.
const shortly = 2 * time.Second

// shorten makes the states of an alarm last for shortly. textOf reverts it in messages.
func (tr *trial) shorten(alarm *unstructured.Unstructured) {
	tr.Helper()
	states, found, _ := unstructured.NestedSlice(alarm.Object, "spec", "states")
	if !found {
		return
	}
	for _, s := range states {
		state := s.(map[string]any)
		if _, ok := state["forSeconds"]; !ok {
			continue
		}
		written, err := time.ParseDuration(fmt.Sprintf("%vs", state["forSeconds"]))
		if err != nil {
			tr.Fatal(err)
		}
		state["forSeconds"] = int64(shortly.Seconds())
		note := func(d time.Duration) string { return fmt.Sprintf("for %v: %v", d, state["expression"]) }
		tr.shortened = append(tr.shortened, note(shortly), note(written))
	}
	if err := unstructured.SetNestedSlice(alarm.Object, states, "spec", "states"); err != nil {
		tr.Fatal(err)
	}
}

// textOf returns the text of a message as the page shows it.
func (tr *trial) textOf(m message.Message) string {
	return strings.NewReplacer(tr.shortened...).Replace(normalize(m.Title + "\n" + m.Text))
}

// awaitNight waits until the mute copy has suppressed an occurrence.
func (tr *trial) awaitNight() {
	tr.Helper()
	if !mute(tr.entry) {
		return
	}
	night := object(tr.atNight())
	tr.until("the mute alarm has suppressed an occurrence", func(ctx context.Context) bool {
		tr.Ready(ctx, night)
		return night.AlarmStatus().SuppressedByMute > 0
	})
}

func (tr *trial) apply(objects ...*unstructured.Unstructured) {
	tr.Helper()
	for _, o := range objects {
		if o.GetKind() == "Pod" {
			if err := tr.AwaitAccount(tr.Context(), o.GetNamespace()); err != nil {
				tr.Fatal(err)
			}
		}
		if err := install.Apply(tr.Context(), tr.Client, o); err != nil {
			tr.Fatal(err)
		}
	}
}

// object returns a typed object for reading the alarm.
func object(u *unstructured.Unstructured) cluster.Object {
	key := metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}
	if u.GetKind() == "Alarm" {
		return &v1alpha1.Alarm{ObjectMeta: key}
	}
	return &v1alpha1.ClusterAlarm{ObjectMeta: key}
}

func mute(e entry) bool {
	_, found, _ := unstructured.NestedSlice(e.alarm.Object, "spec", "mute")
	return found
}

// nightly returns the name of the mute copy of an alarm.
func nightly(e entry) string { return e.alarm.GetName() + "-at-night" }

// atNight returns a copy of the alarm in a time zone in which it is mute now and during the
// test.
func (tr *trial) atNight() *unstructured.Unstructured {
	tr.Helper()
	for hours := -14; hours <= 12; hours++ {
		night := tr.entry.alarm.DeepCopy()
		night.SetName(nightly(tr.entry))
		windows, _, _ := unstructured.NestedSlice(night.Object, "spec", "mute")
		for _, w := range windows {
			w.(map[string]any)["timeZone"] = fmt.Sprintf("Etc/GMT%+d", hours)
		}
		if err := unstructured.SetNestedSlice(night.Object, windows, "spec", "mute"); err != nil {
			tr.Fatal(err)
		}
		if now := time.Now(); tr.muteAt(windows, now) && tr.muteAt(windows, now.Add(2*patience)) {
			return night
		}
	}
	tr.Fatal("the alarm is mute in no time zone now: check its mute windows")
	return nil
}

func (tr *trial) muteAt(windows []any, at time.Time) bool {
	tr.Helper()
	for _, w := range windows {
		var spec v1alpha1.MuteWindow
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.(map[string]any), &spec); err != nil {
			tr.Fatal(err)
		}
		window, err := calendar.New(&spec)
		if err != nil {
			tr.Fatal(err)
		}
		if window.Contains(at) {
			return true
		}
	}
	return false
}
