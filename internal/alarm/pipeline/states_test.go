package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/setclock"
)

const stateWait = 5 * time.Minute

// stateWorld is a leader with an alarm on Deployments that are not available, and its receiver.
type stateWorld struct {
	t *testing.T
	// passing is the time that passes. The clock of the operator shows it until it is set.
	passing  *clocktesting.FakeClock
	clock    *setclock.Clock
	dir      string
	store    *outbox.Store
	pipeline *Pipeline
	alarms   *Alarms
	spec     v1alpha1.AlarmSpec
	open     []v1alpha1.AlarmOpenGroup
	position uint64
	objects  map[string]string
	got      []string
	// resource is that of the objects.
	resource string
	// receiver is the one whose messages are checked. With a route, team is the label of the
	// namespace that chooses it.
	receiver, team string
	route          *match.Route
}

func (w *stateWorld) Labels(string) (map[string]string, bool, alarm.Unread) {
	return map[string]string{"team": w.team}, true, ""
}

func newStateWorld(t *testing.T) *stateWorld {
	passing := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	w := &stateWorld{t: t, passing: passing, clock: &setclock.Clock{WithTicker: passing}, position: 10, objects: map[string]string{}, resource: "deployments", receiver: "hook"}
	w.spec.States = []v1alpha1.StateMatch{{
		Resource:   v1alpha1.ChangeResource{APIGroup: "apps", Resource: "deployments"},
		Expression: `object.status.phase == "Bad" || object.status.phase == "Aging" && now > timestamp("2027-01-15T09:00:00Z")`,
		ForSeconds: int32(stateWait / time.Second),
	}}
	w.startOn(t.TempDir())
	return w
}

// startOn starts an operator with the disk in a directory.
func (w *stateWorld) startOn(dir string) {
	w.t.Helper()
	w.dir = dir
	store, err := outbox.Open(w.t.Context(), dir, outbox.WithClock(w.clock), outbox.WithComposer(ComposeGroup))
	must(w.t, err)
	w.store, w.alarms = store, NewAlarms()
	w.setAlarm("1")
	w.pipeline = New(Config{Namespaces: w, Outbox: store, Alarms: w.alarms, Enricher: noop{}, Reporter: noop{}, Dispatcher: noop{}, Clock: w.clock, Log: logr.Discard()})
	w.pipeline.started = w.clock.Now()
}

func (w *stateWorld) setAlarm(version string) {
	w.t.Helper()
	compiler, err := match.NewCompiler()
	must(w.t, err)
	definition := match.Definition{
		ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "unavailable"}, UID: "alarm", Receivers: []string{"hook"}, Spec: w.spec, OpenGroups: w.open,
	}
	if w.route != nil {
		definition.ID, definition.Receivers, definition.Route = kube.Key{Kind: alarm.KindClusterAlarm, Name: "unavailable"}, nil, w.route
	}
	compiled, err := compiler.Compile(definition)
	must(w.t, err)
	w.alarms.Set("unavailable", version, compiled)
}

func (w *stateWorld) stop() { must(w.t, w.store.Close()) }

// restart starts the operator again, with the same disk.
func (w *stateWorld) restart() {
	w.t.Helper()
	w.stop()
	w.startOn(w.dir)
}

// failover starts the operator with an empty disk and the checkpoint.
func (w *stateWorld) failover() {
	w.t.Helper()
	c, err := w.pipeline.nextCheckpoint(w.t.Context())
	must(w.t, err)
	c.Fit()
	data, err := json.Marshal(c)
	must(w.t, err)
	var read checkpoint.Checkpoint
	must(w.t, json.Unmarshal(data, &read))
	w.stop()
	w.startOn(w.t.TempDir())
	must(w.t, w.pipeline.replayStreams(w.t.Context(), "", read.Streams))
	w.pipeline.states.seen = nil
	w.list()
}

func (w *stateWorld) baseline(name string) outbox.Baseline {
	w.t.Helper()
	data, err := fields.Encode(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": name, "uid": "u-" + name},
		"status": map[string]any{"phase": w.objects[name]},
	})
	must(w.t, err)
	return outbox.Baseline{UID: "u-" + name, Namespace: "shop", Shape: "status.phase", Data: data}
}

func (w *stateWorld) batch(put []outbox.Baseline, deleted ...string) {
	w.t.Helper()
	w.position++
	must(w.t, w.pipeline.handleChanges(w.t.Context(), objects.Batch{
		Resource: alarm.Resource{Group: "apps", Version: "v1", Resource: w.resource},
		Stream:   outbox.Stream{Name: alarm.Resource{Group: "apps", Resource: w.resource}.Stream(), Version: "v1", Shape: "status.phase", Position: w.position, Complete: true, Time: w.clock.Now()},
		Put:      put, Delete: deleted,
	}))
}

// list commits all objects, as a list does.
func (w *stateWorld) list() {
	w.t.Helper()
	var all []outbox.Baseline
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		all = append(all, w.baseline(name))
	}
	w.batch(all)
}

func (w *stateWorld) set(name, phase string) {
	w.t.Helper()
	w.objects[name] = phase
	w.batch([]outbox.Baseline{w.baseline(name)})
}

func (w *stateWorld) delete(name string) {
	w.t.Helper()
	delete(w.objects, name)
	w.batch(nil, "u-"+name)
}

// after lets time pass, with a bookmark, and sweeps.
func (w *stateWorld) after(d time.Duration) {
	w.t.Helper()
	w.passing.Step(d)
	w.batch(nil)
	_, err := w.pipeline.sweep(w.t.Context())
	must(w.t, err)
}

// receive gives the receiver what is due, and returns all that it got so far.
func (w *stateWorld) receive() []string {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.store.Release(ctx)
	must(w.t, err)
	for {
		entries, err := w.store.Pending(ctx, outbox.Query{Receiver: w.receiver, Lane: outbox.MainLane, Limit: 1})
		must(w.t, err)
		if len(entries) == 0 {
			return w.got
		}
		var m struct {
			Group struct {
				Resolved bool `json:"resolved"`
			} `json:"group"`
			Events []struct {
				Regarding struct {
					Name string `json:"name"`
				} `json:"regarding"`
			} `json:"events"`
		}
		must(w.t, json.Unmarshal(entries[0].Payload, &m))
		text := "bad " + m.Events[len(m.Events)-1].Regarding.Name
		if m.Group.Resolved {
			text = "good " + m.Events[len(m.Events)-1].Regarding.Name
		}
		w.got = append(w.got, text)
		attempt, err := w.store.Prepare(ctx, w.receiver, outbox.MainLane, []int64{entries[0].ID}, fmt.Sprint(len(w.got)), nil)
		must(w.t, err)
		_, err = w.store.Finish(ctx, attempt, outbox.Outcome{})
		must(w.t, err)
	}
}

func (w *stateWorld) want(texts ...string) {
	w.t.Helper()
	w.after(2 * time.Second)
	got := w.receive()
	w.got = nil
	if strings.Join(got, ", ") != strings.Join(texts, ", ") {
		w.t.Fatalf("messages %q, want %q", got, texts)
	}
}

func TestAStateThatBeginsIsReportedBeforeTheNextSweepIfItIsDueThen(t *testing.T) {
	for name, tc := range map[string]struct {
		sweep time.Duration // from now
		want  bool
	}{
		"it is due before the next sweep": {stateWait + time.Second, true},
		"it is due after the next sweep":  {stateWait - time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.after(time.Minute)
			w.pipeline.states.plan(w.clock.Now().Add(tc.sweep))
			w.set("web", "Bad")
			select {
			case <-w.pipeline.states.wake:
				if !tc.want {
					t.Error("the sweep is woken, want no wake")
				}
			default:
				if tc.want {
					t.Error("the sweep is not woken, and the state is reported late")
				}
			}
		})
	}
}

func TestAStateIsReportedWhenItHasLastedAndResolvedWhenItEnds(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.after(4 * time.Minute)
	w.want()
	w.after(time.Minute)
	w.want("bad web")
	w.after(5 * time.Hour) // much longer than a group of Events stays open
	w.set("web", "Bad")
	w.want()
	w.set("web", "Good")
	w.want("good web")
	w.set("web", "Bad")
	w.set("web", "Good")
	w.after(time.Hour)
	w.want()
}

// A Deployment that flaps is one incident.
func TestAStateEndsWhenItHasBeenOverForLongEnough(t *testing.T) {
	for name, between := range map[string]func(w *stateWorld){
		"nothing happens": func(*stateWorld) {},
		"a restart":       func(w *stateWorld) { w.restart(); w.list() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.spec.States[0].EndSeconds = 600
			w.setAlarm("2")
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			for range 5 {
				w.set("web", "Good")
				w.after(9 * time.Minute)
				between(w)
				w.set("web", "Bad")
				w.after(time.Minute)
			}
			w.want()
			w.set("web", "Good")
			w.after(5 * time.Minute)
			between(w)
			w.want()
			w.after(5 * time.Minute)
			w.want("good web")
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			w.delete("web")
			w.want("good web")
		})
	}
}

// Both Deployments are one group, so that a second one would be reported.
func TestAnAcknowledgedStateIsOnlyResolved(t *testing.T) {
	for name, between := range map[string]func(w *stateWorld){
		"nothing happens":  func(*stateWorld) {},
		"a restart":        func(w *stateWorld) { w.restart() },
		"the disk is lost": func(w *stateWorld) { w.failover() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.spec.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.namespace"}, WaitSeconds: new(int32(0)), IntervalSeconds: new(int32(30))}
			w.setAlarm("2")
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			groups, _, err := w.store.Groups.List(t.Context(), "Alarm/shop/unavailable", 1)
			must(t, err)
			ack := v1alpha1.AlarmAcknowledgement{Group: groups[0].ID, Since: metav1.NewTime(groups[0].Since), By: "ana", Time: metav1.NewTime(w.clock.Now())}
			w.spec.Acknowledgements = []v1alpha1.AlarmAcknowledgement{ack}
			w.setAlarm("3")
			w.pipeline.acknowledgeOnce(t.Context())
			w.open = []v1alpha1.AlarmOpenGroup{{Key: ack.Group, Since: ack.Since, LastTime: ack.Since, AcknowledgedBy: "ana", AcknowledgedTime: &ack.Time}}
			w.after(3 * time.Hour)
			between(w)
			w.set("db", "Bad")
			w.after(stateWait)
			w.want()
			w.set("web", "Good")
			w.after(time.Hour)
			w.want()
			w.set("db", "Good")
			w.after(time.Minute)
			w.want("good db")
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
		})
	}
}

func TestAStateEndsWithItsObjectOrTheAlarm(t *testing.T) {
	for name, end := range map[string]func(w *stateWorld){
		"deleted": func(w *stateWorld) { w.delete("web") },
		"deleted while no operator ran": func(w *stateWorld) {
			w.stop()
			delete(w.objects, "web")
			w.startOn(w.dir)
			w.batch(nil, "u-web")
		},
		"no longer selected": func(w *stateWorld) {
			w.spec.States[0].Names = []string{"db"}
			w.setAlarm("2")
		},
		"another expression": func(w *stateWorld) {
			w.spec.States[0].Expression = "false"
			w.setAlarm("2")
		},
		"another resource": func(w *stateWorld) {
			w.spec.States[0].Resource.Resource = "statefulsets"
			w.setAlarm("2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			end(w)
			w.after(time.Second)
			w.want("good web")
		})
	}
}

// Alarms can change often, so the sweep considers a change some time after the one before.
func TestAStateEndsIfTheLastStatesAreRemovedSoonAfterAnotherChange(t *testing.T) {
	w := newStateWorld(t)
	w.spec.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(0)), IntervalSeconds: new(int32(0))}
	w.setAlarm("2")
	w.set("web", "Bad")
	w.after(stateWait)
	w.want("bad web")
	w.pipeline.states.calm = w.clock.Now().Add(20 * time.Second)
	w.spec.States, w.spec.Match = nil, []v1alpha1.EventMatch{{Reasons: []string{"Failed"}}}
	w.setAlarm("3")
	wait, err := w.pipeline.sweep(t.Context())
	must(t, err)
	if wait > 20*time.Second {
		t.Fatalf("the next sweep is in %s", wait)
	}
	w.after(wait)
	w.want("good web")
}

// A node can boot with a wrong clock, which is then corrected.
func TestStatesAreReportedAfterTheClockWasSetBack(t *testing.T) {
	for name, do := range map[string]func(w *stateWorld){
		"before the state began": func(w *stateWorld) {
			w.clock.Set(-9 * time.Hour)
			w.set("web", "Bad")
		},
		"after the state began": func(w *stateWorld) {
			w.set("web", "Bad")
			w.after(time.Minute)
			w.clock.Set(-9 * time.Hour)
			w.after(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			do(w)
			w.after(stateWait)
			w.want("bad web")
			w.set("web", "Good")
			w.want("good web")
		})
	}
}

func TestAStateIsReportedTooEarlyIfTheClockIsSetForward(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.clock.Set(time.Hour)
	w.after(time.Second)
	w.want("bad web")
}

func TestTheStatesOfADeletedAlarmAreForgotten(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.after(stateWait)
	w.want("bad web")
	w.alarms.Deactivate("unavailable", "alarm") // invalid before it is deleted
	w.want()
	w.wantRows(1, "while the alarm is inactive")
	w.alarms.Delete("unavailable")
	w.want()
	w.wantRows(0, "after the deletion")
}

// An edit can make an alarm invalid for a while.
func TestTheReportedStatesOfAnAlarmThatIsHeldAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		during func(w *stateWorld)
		want   []string
	}{
		"it still holds":     {func(*stateWorld) {}, nil},
		"it ended":           {func(w *stateWorld) { w.set("web", "Good") }, []string{"good web"}},
		"the object is gone": {func(w *stateWorld) { w.delete("web") }, []string{"good web"}},
		"it is edited":       {func(w *stateWorld) { w.spec.States[0].Expression = "false" }, []string{"good web"}},
		"a restart": {func(w *stateWorld) {
			w.restart()
			w.alarms.Deactivate("unavailable", "")
			w.list()
		}, nil},
		"a restart before the alarm is valid": {func(w *stateWorld) {
			w.restart()
			w.alarms.Delete("unavailable")
			w.alarms.Deactivate("unavailable", "alarm")
			w.set("web", "Good")
		}, []string{"good web"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			w.alarms.Deactivate("unavailable", "alarm")
			w.after(time.Second)
			tc.during(w)
			w.after(time.Hour)
			w.want()
			w.setAlarm("2")
			w.after(time.Second)
			w.want(tc.want...)
			if len(tc.want) == 0 {
				w.set("web", "Good")
				w.want("good web")
			}
		})
	}
}

func TestAStateThatWasNotReportedBeginsAgainAfterItsAlarmWasHeld(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.after(4 * time.Minute)
	w.alarms.Deactivate("unavailable", "alarm")
	w.after(time.Second)
	w.setAlarm("2")
	w.after(time.Second)
	w.after(4 * time.Minute)
	w.want()
	w.after(time.Minute)
	w.want("bad web")
}

func TestARestartNeitherReportsAgainNorStartsTheWaitOver(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.after(4 * time.Minute)
	w.restart()
	w.list()
	w.after(time.Minute)
	w.want("bad web")
	w.restart()
	w.list()
	w.after(time.Hour)
	w.want()
	w.set("web", "Good")
	w.want("good web")
}

// While the operator was down, the object can have become good: its last known state is no
// reason for a message.
func TestAStateIsNotReportedBeforeTheObjectsAreReadAgain(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.passing.Step(time.Hour)
	w.restart()
	_, err := w.pipeline.sweep(t.Context())
	must(t, err)
	w.set("web", "Good")
	w.want()
}

func TestAnotherLeaderContinuesTheStates(t *testing.T) {
	for name, tc := range map[string]struct {
		during   func(w *stateWorld)
		received bool
		want     []string
	}{
		"it still holds":           {func(*stateWorld) {}, true, nil},
		"it ended":                 {func(w *stateWorld) { w.objects["web"] = "Good" }, true, []string{"good web"}},
		"the object is gone":       {func(w *stateWorld) { delete(w.objects, "web") }, true, []string{"good web"}},
		"the report waited":        {func(*stateWorld) {}, false, []string{"bad web"}},
		"it ended, and had waited": {func(w *stateWorld) { w.objects["web"] = "Good" }, false, []string{"bad web", "good web"}},
	} {
		for _, dropped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, its stream was dropped: %t", name, dropped), func(t *testing.T) {
				w := newStateWorld(t)
				w.set("web", "Bad")
				w.after(stateWait)
				if tc.received {
					w.want("bad web")
				}
				if dropped { // no other alarm needs it
					w.alarms.Deactivate("unavailable", "alarm")
					must(t, w.store.Streams.Drop(t.Context(), deployments))
				}
				tc.during(w)
				w.failover()
				w.after(stateWait)
				w.want(tc.want...)
				if !slices.Contains(tc.want, "good web") {
					w.set("web", "Good")
					w.want("good web")
				}
			})
		}
	}
}

func TestAStateWaitsForTheEndOfAMute(t *testing.T) {
	w := newStateWorld(t)
	w.spec.MuteUntil = &metav1.Time{Time: w.clock.Now().Add(time.Hour)}
	w.setAlarm("2")
	w.set("web", "Bad")
	w.set("db", "Bad")
	w.after(30 * time.Minute)
	w.want()
	w.set("db", "Good")
	w.after(31 * time.Minute)
	w.want("bad web")
}

func TestAnExpressionWithNowIsEvaluatedAsTimePasses(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Aging")
	w.passing.SetTime(time.Date(2027, 1, 15, 8, 59, 50, 0, time.UTC))
	w.after(time.Second)
	w.want()
	w.after(time.Minute)
	w.after(stateWait)
	w.want("bad web")
}

// All objects of a group share its messages, so that it ends with the last of them.
func TestAGroupIsResolvedWithItsLastState(t *testing.T) {
	for name, by := range map[string][]string{"of a namespace": {"regarding.namespace"}, "of all": nil} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.spec.Group = &v1alpha1.AlarmGroup{By: by, WaitSeconds: new(int32(0)), IntervalSeconds: new(int32(0))}
			w.setAlarm("2")
			w.set("web", "Bad")
			w.set("db", "Bad")
			w.after(stateWait)
			w.want("bad web")
			w.set("db", "Good")
			w.want()
			w.set("web", "Good")
			w.want("good web")
		})
	}
}

// The deletion was read before the stream was current.
func TestAGroupStaysOpenIfAnObjectWithTwoStatesIsGone(t *testing.T) {
	w := newStateWorld(t)
	w.spec.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.namespace"}, WaitSeconds: new(int32(0)), IntervalSeconds: new(int32(0))}
	second := w.spec.States[0]
	second.Expression = `object.status.phase in ["Bad"] && object.metadata.name == "web"`
	w.spec.States = append(w.spec.States, second)
	w.setAlarm("2")
	w.set("web", "Bad")
	w.set("db", "Bad")
	w.after(stateWait)
	w.after(2 * time.Second)
	w.receive()
	w.got = nil
	delete(w.objects, "web")
	w.position++
	must(t, w.pipeline.handleChanges(t.Context(), objects.Batch{
		Resource: alarm.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, Delete: []string{"u-web"},
		Stream: outbox.Stream{Name: deployments, Version: "v1", Shape: "status.phase", Position: w.position, Complete: true, Time: w.clock.Now().Add(-time.Hour)},
	}))
	w.after(time.Second)
	w.want()
	w.set("db", "Good")
	w.want("good db")
}

// A sweep that began before the alarm was edited must not end states that began after it.
func TestASweepUsesThePresentAlarms(t *testing.T) {
	w := newStateWorld(t)
	before, _ := w.pipeline.Alarms.statesByStream()
	w.spec.States[0].Expression, w.spec.States[0].ForSeconds = `object.status.phase == "Worse"`, 0
	w.setAlarm("2")
	w.set("web", "Worse")
	streams, err := w.store.Streams.All(t.Context())
	must(t, err)
	must(t, w.pipeline.sweepOrphans(t.Context(), before, streams))
	w.want("bad web")
}

func TestTheStatesOfANamespaceAreLimited(t *testing.T) {
	w := newStateWorld(t)
	w.stop()
	store, err := outbox.Open(t.Context(), w.dir, outbox.WithClock(w.clock), outbox.WithMaxBytes(4<<20))
	must(t, err)
	w.store, w.pipeline.Outbox = store, store
	for i := range 3_000 {
		w.objects[fmt.Sprint("web-", i)] = "Bad"
		if i%500 == 499 {
			w.list()
		}
	}
	rows, err := store.States.Page(t.Context(), time.Time{}, time.Time{}, 0, 10_000)
	must(t, err)
	if len(rows) == 0 || len(rows) == 3_000 {
		t.Errorf("%d states are stored", len(rows))
	}
	if space, err := store.Space(t.Context()); err != nil || !fitsState(space, tenantID{alarm.KindAlarm, "other"}, 2_000) {
		t.Errorf("another namespace has no space: %v", err)
	}
	must(t, store.Close())
}

// costs returns what the states of the Alarms of a namespace have cost so far.
func (w *stateWorld) costs(namespace string) int64 {
	return costBurst - int64(w.pipeline.matcher.ofAlarms.limiter(namespace).TokensAt(w.clock.Now()))
}

func (w *stateWorld) addAlarm(id kube.Key, expression string) {
	w.t.Helper()
	compiler, err := match.NewCompiler()
	must(w.t, err)
	spec := v1alpha1.AlarmSpec{States: []v1alpha1.StateMatch{{Resource: w.spec.States[0].Resource, Expression: expression}}}
	compiled, err := compiler.Compile(match.Definition{ID: id, UID: id.Kind + id.Namespace + id.Name, Receivers: []string{"hook"}, Spec: spec})
	must(w.t, err)
	w.alarms.Set(id.Kind+id.Namespace+id.Name, "1", compiled)
}

// A tenant who edits an alarm again and again must not use up what others can evaluate.
func TestAChangeOfAnAlarmEvaluatesNoStatesOfOthers(t *testing.T) {
	w := newStateWorld(t)
	w.set("web", "Bad")
	w.after(time.Second)
	before := w.costs("shop")
	for i := range 3 {
		w.addAlarm(kube.Key{Kind: alarm.KindAlarm, Namespace: "other", Name: fmt.Sprint(i)}, "true")
		_, err := w.pipeline.sweep(t.Context())
		must(t, err)
	}
	if after := w.costs("shop"); after != before {
		t.Errorf("three alarms of another namespace cost %d", after-before)
	}
	w.addAlarm(kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "new"}, "true")
	_, err := w.pipeline.sweep(t.Context())
	must(t, err)
	if after := w.costs("shop"); after == before {
		t.Error("a new state was not evaluated")
	}
	w.stop()
}

// Large objects that compress well use little space on the disk.
func TestLargeObjectsAreBilledWhenTheirStatesAreEvaluated(t *testing.T) {
	w := newStateWorld(t)
	w.objects["web"] = strings.Repeat("x", 1<<20)
	w.list()
	if cost := w.costs("shop"); cost < 1<<20/bytesPerDecodeUnit {
		t.Errorf("an object of 1 MiB cost %d", cost)
	}
	for i := range 200 {
		w.set("web", strings.Repeat("x", 1<<20)+fmt.Sprint(i))
	}
	if cost := w.costs("shop"); cost > costBurst+costPerBatch {
		t.Errorf("200 large objects cost %d", cost)
	}
	w.stop()
}

// A tenant must use up neither what ClusterAlarms need for the tenant's objects, nor the space of
// other namespaces.
func TestStatesOfAlarmsLeaveSpaceForOthers(t *testing.T) {
	space := ledger.New(0)
	hasSpace := func(kind, namespace string) bool { return fitsState(space, tenantID{kind, namespace}, 0) }
	fill := func(kind, namespace string) {
		for hasSpace(kind, namespace) {
			space.Add(ledger.States, namespace, 100)
		}
	}
	fill(alarm.KindAlarm, "shop")
	if !hasSpace(alarm.KindClusterAlarm, "shop") {
		t.Error("states of Alarms leave no space for ClusterAlarms")
	}
	for i := range 20 {
		fill(alarm.KindClusterAlarm, fmt.Sprint("tenant-", i))
	}
	if !hasSpace(alarm.KindAlarm, "victim") {
		t.Error("20 namespaces leave no space for another")
	}
}

func TestStatesOfManyNamespacesShareALimit(t *testing.T) {
	w := newStateWorld(t)
	st := w.pipeline.newStateStep(deployments, 1, unlimited())
	s := w.alarms.Index().States(deployments, "shop")[0]
	for i := range 1_000 {
		meter := st.meter(tenantOf(s, fmt.Sprint("namespace-", i)))
		for !meter.Exhausted() {
			meter.Spend(1_000)
		}
		if meter.Spent() == 0 {
			t.Fatalf("namespace %d has no budget", i)
		}
	}
	if spent := totalSpent(st.allTenants()); spent > totalCostPerBatch+1_000*(lowCostOfStates+1_000) {
		t.Errorf("the step cost %d", spent)
	}
	w.stop()
}

// Whatever happens, the messages are those of a model that knows only what objects were like at
// which time.
func TestStatesAreReportedAsInAModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			w, m := newStateWorld(t), stateModel{since: map[string]time.Time{}, fired: map[string]bool{}, over: map[string]time.Time{}}
			if seed%2 == 1 {
				m.end = 2 * time.Minute
				w.spec.States[0].EndSeconds = 120
				w.setAlarm("2")
			}
			for range 40 {
				name := fmt.Sprint("web-", random.IntN(3))
				switch random.IntN(8) {
				case 0, 1:
					w.set(name, "Bad")
				case 2, 3:
					w.set(name, "Good")
				case 4:
					if _, ok := w.objects[name]; ok {
						w.delete(name)
					}
				case 5:
					w.restart()
					w.list()
				case 6:
					w.receive() // the end of a state that waits is lost with the disk
					w.failover()
					m.forgetPending(w.clock.Now())
				case 7:
					w.list()
				}
				m.observe(w.objects, w.clock.Now())
				w.after(time.Duration(random.IntN(150)) * time.Second)
				m.observe(w.objects, w.clock.Now())
				w.after(2 * time.Second)
				m.observe(w.objects, w.clock.Now())
				if random.IntN(3) > 0 {
					w.receive()
				}
			}
			w.after(2 * time.Second)
			m.observe(w.objects, w.clock.Now())
			w.after(2 * time.Second)
			if diff := cmp.Diff(m.messages(), byObject(w.receive())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stateModel is what a receiver must know in the end.
type stateModel struct {
	since map[string]time.Time
	fired map[string]bool
	// over is since when a state does not hold that was reported. It ends after end.
	over map[string]time.Time
	end  time.Duration
	all  []string
}

func (m *stateModel) observe(objects map[string]string, now time.Time) {
	for i := range 3 {
		name := fmt.Sprint("web-", i)
		since, held := m.since[name]
		if objects[name] == "Bad" {
			delete(m.over, name)
		}
		switch {
		case objects[name] != "Bad":
			if _, over := m.over[name]; !over {
				m.over[name] = now
			}
			if m.fired[name] && objects[name] == "Good" && now.Sub(m.over[name]) < m.end {
				continue
			}
			if m.fired[name] {
				m.all = append(m.all, "good "+name)
			}
			delete(m.since, name)
			delete(m.fired, name)
			delete(m.over, name)
		case !held:
			m.since[name] = now
		case !m.fired[name] && now.Sub(since) >= stateWait:
			m.fired[name] = true
			m.all = append(m.all, "bad "+name)
		}
	}
}

// forgetPending: without the disk, the wait of states that were not reported begins again, and that before an end.
func (m *stateModel) forgetPending(now time.Time) {
	for name := range m.since {
		if !m.fired[name] {
			m.since[name] = now
		}
	}
	for name := range m.over {
		m.over[name] = now
	}
}

func (m *stateModel) messages() map[string]string { return byObject(m.all) }

// byObject joins the messages about each object.
func byObject(all []string) map[string]string {
	of := map[string]string{}
	for _, text := range all {
		what, name, _ := strings.Cut(text, " ")
		of[name] += what + " "
	}
	return of
}
