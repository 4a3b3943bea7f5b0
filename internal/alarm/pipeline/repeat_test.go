package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/alerts"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
)

// alerting is an operator whose alarm about Nodes sends to an Alertmanager.
type alerting struct {
	t      *testing.T
	clock  *clocktesting.FakeClock
	server *alerts.Alertmanager
	alarms *Alarms
	dir    string
	// checkpoint and events are in the cluster.
	checkpoint *memoryCheckpoint
	events     []alarm.Occurrence

	p        *Pipeline
	notifier *alertmanager.Notifier
	began    time.Time
	position uint64
	stop     func()
}

func newAlerting(t *testing.T, change ...func(*v1alpha1.AlarmSpec)) *alerting {
	t.Helper()
	a := &alerting{t: t, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), alarms: NewAlarms(), dir: t.TempDir(), checkpoint: &memoryCheckpoint{}}
	a.server = alerts.New(t, a.clock)
	compiler, err := match.NewCompiler()
	must(t, err)
	spec := v1alpha1.AlarmSpec{
		Match: []v1alpha1.EventMatch{{Reasons: []string{"NodeNotReady", "NodeReady"}}},
		Group: &v1alpha1.AlarmGroup{By: []string{"regarding.kind", "regarding.name"}},
	}
	for _, f := range change {
		f(&spec)
	}
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "nodes"}, UID: "nodes", Receivers: []string{"ops"}, Spec: spec,
	})
	must(t, err)
	a.alarms.Set("nodes", "1", compiled)
	a.lead()
	must(t, a.p.handle(t.Context(), source.Batch{Position: 1})) // a source that starts from now
	t.Cleanup(func() { a.stop() })
	return a
}

// lead starts a leader on the disk, which reads what it has not read.
func (a *alerting) lead() {
	a.t.Helper()
	ctx := context.WithoutCancel(a.t.Context())
	store, err := outbox.Open(ctx, a.dir, outbox.WithClock(a.clock), outbox.WithComposer(ComposeGroup))
	must(a.t, err)
	a.notifier, err = alertmanager.New(notifiers.Client(a.t), alertmanager.Config{URL: a.server.URL, Clock: a.clock})
	must(a.t, err)
	dispatcher := notify.NewDispatcher(store, noop{}, a.clock, logr.Discard(), notify.Options{})
	a.p = New(Config{
		Source:     at(1),
		ClusterUID: "cluster", Outbox: store, Checkpoint: a.checkpoint, Dispatcher: dispatcher, Alarms: a.alarms, Enricher: noop{},
		Receiver: func(key string) (Receiver, bool) { return Receiver{ID: key, Repeats: key == "ops"}, true }, Reporter: noop{}, Clock: a.clock, Log: logr.Discard(), Observe: func(context.Context, []alarm.Occurrence) {},
	})
	start, err := a.p.takeOver(ctx)
	must(a.t, err)
	a.began = a.clock.Now()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- dispatcher.Run(ctx) }()
	a.stop = func() {
		cancel()
		must(a.t, <-done)
		must(a.t, store.Close())
	}
	a.await(func() bool { return a.clock.Waiters() >= 2 })
	dispatcher.Configure(notify.Receiver{Key: "ops", Notifier: a.notifier})
	for i := range a.events {
		if a.events[i].Position > start.Position {
			must(a.t, a.p.handle(ctx, source.Batch{Position: a.events[i].Position, Time: a.events[i].ObservedAt, Occurrences: a.events[i : i+1]}))
		}
	}
	if start.Until > a.p.Outbox.State().Position { // the end of a replay
		must(a.t, a.p.handle(ctx, source.Batch{Position: start.Until, Time: start.UntilTime}))
	}
}

// crash ends the leader.
func (a *alerting) crash() {
	a.t.Helper()
	must(a.t, a.p.writeCheckpoint(a.t.Context()))
	a.stop()
}

// happen reads an Event about a Node.
func (a *alerting) happen(reason, node string) {
	a.t.Helper()
	a.position = a.p.Outbox.State().Position + 1
	occ := alarm.Occurrence{
		Increase: 1, Position: a.position, ObservedAt: a.clock.Now(), Event: alarm.Event{
			UID: fmt.Sprint(a.position), Count: 1, Type: "Warning", Reason: reason, Regarding: alarm.Reference{Kind: "Node", Name: node},
		},
	}
	a.events = append(a.events, occ)
	must(a.t, a.p.handle(a.t.Context(), source.Batch{Position: occ.Position, Time: occ.ObservedAt, Occurrences: []alarm.Occurrence{occ}}))
}

// step is how often the Dispatcher looks for messages to repeat.
const step = 10 * time.Second

// pass lets time pass. It calls check every ten seconds, when all that is due was sent.
func (a *alerting) pass(d time.Duration, check func()) {
	a.t.Helper()
	for until := a.clock.Now().Add(d); a.clock.Now().Before(until); {
		a.step()
		if check != nil {
			a.settle()
			check()
		}
	}
}

// step lets ten seconds pass.
func (a *alerting) step() {
	a.t.Helper()
	if a.clock.Now().Unix()%60 == 0 { // another Event, and a bookmark
		a.happen("Scheduled", "node-2")
		must(a.t, a.p.handle(a.t.Context(), source.Batch{Position: a.p.Outbox.State().Position + 1, Time: a.clock.Now(), CountsKnown: true}))
		must(a.t, a.p.writeCheckpoint(a.t.Context()))
	}
	a.clock.Step(step)
	_, err := a.p.releaseDue(a.t.Context())
	must(a.t, err)
	a.await(func() bool { return a.clock.Waiters() >= 2 })
}

// settle returns when nothing is overdue for more than two steps. Failed requests are repeated
// only later, so that time passes if this takes long.
func (a *alerting) settle() {
	a.t.Helper()
	polls := 0
	a.await(func() bool {
		if polls++; polls%500 == 0 {
			a.step()
		}
		due := a.clock.Now().Add(-a.notifier.RepeatEvery() - 2*step)
		again, err := a.p.Outbox.Repeated(a.t.Context(), "ops", due, 1, 0)
		must(a.t, err)
		return a.p.Outbox.Backlog("ops").Entries == 0 && (len(again) == 0 || !a.p.Outbox.CaughtUp(a.began))
	})
}

func (a *alerting) await(done func() bool) {
	a.t.Helper()
	gomega.NewWithT(a.t).Eventually(done, "60s", "1ms").Should(gomega.BeTrue())
}

// firing returns a check of the alerts that have not ended.
func (a *alerting) firing(want ...string) func() {
	begin := a.clock.Now()
	return func() {
		a.t.Helper()
		if diff := cmp.Diff(want, a.server.Firing()); diff != "" {
			a.t.Fatalf("%s later: alerts (-want +got):\n%s", a.clock.Since(begin), diff)
		}
	}
}

const notReady = "⚠️ node-0: NodeNotReady (Node)"

func TestANodeThatStaysDownKeepsFiringUntilItIsReady(t *testing.T) {
	for name, between := range map[string]func(a *alerting){
		"nothing happens":            func(*alerting) {},
		"the operator starts again":  func(a *alerting) { a.crash(); a.lead() },
		"another replica takes over": func(a *alerting) { a.crash(); a.dir = a.t.TempDir(); a.lead() },
		"another Node recovers":      func(a *alerting) { a.happen("NodeNotReady", "node-1"); a.happen("NodeReady", "node-1") },
		"the operator was down for two minutes": func(a *alerting) {
			a.crash()
			a.clock.Step(2 * time.Minute)
			a.lead()
		},
		"another replica takes over after a while": func(a *alerting) {
			a.pass(20*time.Minute, a.firing(notReady))
			a.crash()
			a.dir = a.t.TempDir()
			a.lead()
		},
		"Alertmanager starts again": func(a *alerting) {
			a.server.Forget()
			a.pass(3*time.Minute, func() {})
		},
		"Alertmanager does not answer for long": func(a *alerting) {
			a.server.SetDown(true)
			a.pass(20*time.Minute, nil)
			a.firing()() // the last alert has ended
			a.server.SetDown(false)
			a.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAlerting(t)
			a.happen("NodeNotReady", "node-0")
			a.pass(10*time.Second, a.firing(notReady))
			a.pass(3*time.Minute, a.firing(notReady))
			between(a)
			a.pass(20*time.Minute, a.firing(notReady))
			a.happen("NodeReady", "node-0")
			a.pass(10*time.Second, nil)
			a.pass(15*time.Minute, a.firing())
		})
	}
}

// A message that waited longer than an alert lasts must not arrive as resolved.
func TestAnAlertAfterALongOutageIsFiring(t *testing.T) {
	a := newAlerting(t)
	a.server.SetDown(true)
	a.happen("NodeNotReady", "node-0")
	a.pass(20*time.Minute, nil)
	a.firing()()
	a.server.SetDown(false)
	a.settle()
	a.pass(20*time.Minute, a.firing(notReady))
}

// Each request that is accepted is counted once, however often its alert is sent again.
func TestRepeatedAlertsAreNotCounted(t *testing.T) {
	a := newAlerting(t)
	a.happen("NodeNotReady", "node-0")
	a.pass(30*time.Minute, func() {})
	if got := len(a.server.Requests()); got < 10 {
		t.Errorf("%d requests in half an hour", got)
	}
	for _, subject := range []string{"ClusterAlarm//nodes", "ops"} {
		counts, _, ok := a.p.Outbox.Statuses.Counts(subject, "")
		if !ok || counts.Matched != 1 || counts.Delivered != 1 || counts.SuppressedByThreshold+counts.SuppressedByMute+counts.Dropped != 0 {
			t.Errorf("%s: %+v, %t", subject, counts, ok)
		}
	}
}

func TestAnAlertEndsWithItsGroup(t *testing.T) {
	a := newAlerting(t, func(spec *v1alpha1.AlarmSpec) {
		spec.Resolve = &v1alpha1.AlarmResolve{OpenSeconds: new(int32(3600))}
	})
	a.happen("NodeNotReady", "node-0")
	a.pass(10*time.Second, nil)
	a.pass(59*time.Minute, a.firing(notReady))
	a.pass(6*time.Minute, func() {})
	a.firing()()
	before := len(a.server.Requests())
	a.pass(20*time.Minute, a.firing())
	if got := len(a.server.Requests()); got != before {
		t.Errorf("%d requests after the end", got-before)
	}
}

func TestAnOutageOfSeveralHoursIsResolved(t *testing.T) {
	a := newAlerting(t)
	a.happen("NodeNotReady", "node-0")
	a.pass(10*time.Second, nil)
	a.pass(3*time.Hour, a.firing(notReady))
	a.crash()
	a.lead()
	a.happen("NodeReady", "node-0")
	a.pass(10*time.Second, nil)
	a.pass(15*time.Minute, a.firing())
}

// The group of the problem ended, or another leader sent it long ago. In PagerDuty, the message
// resolves the incident of the former group, which has the same key.
func TestAResolutionWithoutAnOpenGroupIsNoAlert(t *testing.T) {
	a := newAlerting(t)
	a.happen("NodeReady", "node-0")
	a.pass(time.Minute, a.firing())
	if got := len(a.server.Requests()); got != 1 {
		t.Errorf("%d requests, want one", got)
	}
	a.happen("NodeNotReady", "node-0")
	a.pass(10*time.Second, nil) // not after the interval of the former group
	a.pass(30*time.Minute, a.firing(notReady))
}
