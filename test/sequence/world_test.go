package sequence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// world is a cluster with replicas of the operator, alarms and receivers.
type world struct {
	ctx     context.Context
	dir     string
	cluster *cluster
	model   *model
	// disks are the data directories of the replicas. made counts all directories.
	disks []string
	made  int
	// leader is nil while no replica runs. killed are the processes that were killed.
	leader *process
	killed []*process
	// starts is the number of processes. read is the position of the last one's outbox. last is the
	// replica that wrote the checkpoint last. newest is that at the last restore of etcd, until the
	// checkpoint is written again: the restored one can be that of an older outbox. Otherwise it is -1.
	starts       int
	read         uint64
	last, newest int
	// ledIn is the number of restores when a replica last wrote the checkpoint, with its present disk.
	ledIn map[int]int

	alarms    []*alarmState
	snapshots []snapshot
	// receivers are the last ones of each name, by key.
	receivers map[string]*endpoint
	live      []*eventsv1.Event
}

const replicas = 3

// The keys of the receivers.
const (
	ops     = "ClusterAlarmReceiver//ops"
	backup  = "ClusterAlarmReceiver//backup"
	chat    = "ClusterAlarmReceiver//chat"
	limited = "ClusterAlarmReceiver//limited"
	team    = "AlarmReceiver/shop/team"
)

var receiverKeys = []string{ops, backup, chat, limited, team}

// alarmState is an alarm of the API server.
type alarmState struct {
	key, name, namespace string
	receivers            []string
	threshold, mute      bool
	definition           match.Definition
	compiled             *match.Alarm
	suspended            bool
	// suspensions are the times from which and until which it was suspended.
	suspensions [][2]time.Time
}

// The threshold of the alarm often, and the interval of the alarm grouped in seconds. The
// alarm mute is mute between these minutes of each hour.
const (
	oftenCount, oftenWithin = 10, 120
	muteFrom, muteUntil     = 4, 12
	groupInterval           = 60
)

// recovered is the reason of the Events that resolve groups.
const recovered = "Recovered"

var compilerOf = sync.OnceValues(match.NewCompiler)

// compiled are the alarms of each world.
var compiled = sync.OnceValues(func() ([]alarmState, error) {
	compiler, err := compilerOf()
	if err != nil {
		return nil, err
	}
	resolve := &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{recovered}}}}
	grouped := &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(groupInterval))}
	muted := []v1alpha1.MuteWindow{{TimeZone: "UTC"}}
	for hour := range 24 {
		muted[0].Times = append(muted[0].Times, v1alpha1.MuteTimes{
			Start: fmt.Sprintf("%02d:%02d", hour, muteFrom), End: fmt.Sprintf("%02d:%02d", hour, muteUntil),
		})
	}
	var all []alarmState
	for _, d := range []match.Definition{
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}, Receivers: []string{ops, backup}},
		{ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "own"}, Receivers: []string{team, ops}},
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "often"}, Receivers: []string{backup},
			Spec: v1alpha1.AlarmSpec{Threshold: &v1alpha1.AlarmThreshold{Count: oftenCount, WithinSeconds: oftenWithin}}},
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "grouped"}, Receivers: []string{chat, ops}, Spec: v1alpha1.AlarmSpec{Group: grouped, Resolve: resolve}},
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "mute"}, Receivers: []string{backup}, Spec: v1alpha1.AlarmSpec{Mute: muted}},
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "flood"}, Receivers: []string{limited}},
		{ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "picky"}, Receivers: []string{backup, team},
			Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{ObjectSelector: &metav1.LabelSelector{}}}}},
	} {
		d.UID = "uid-" + d.ID.Name
		if d.Spec.Match == nil {
			d.Spec.Match = []v1alpha1.EventMatch{{}}
		}
		c, err := compiler.Compile(d)
		if err != nil {
			return nil, err
		}
		all = append(all, alarmState{
			key: d.ID.Kind + "/" + d.ID.Namespace + "/" + d.ID.Name, name: d.ID.Name, namespace: d.ID.Namespace, receivers: d.Receivers,
			definition: d, compiled: c, threshold: c.Threshold() != nil, mute: len(d.Spec.Mute) > 0,
		})
	}
	return all, nil
})

// matches reports whether the alarm matches an occurrence, without its threshold.
func (a *alarmState) matches(r *rise) bool {
	if a.mute && r.at.Minute() >= muteFrom && r.at.Minute() < muteUntil {
		return false
	}
	return a.inScope(r) && !a.resolves(r)
}

// resolves reports whether an occurrence only resolves a group of the alarm.
func (a *alarmState) resolves(r *rise) bool { return a.definition.Spec.Resolve != nil && r.recovers }

// inScope reports whether the alarm's namespace contains the Event.
func (a *alarmState) inScope(r *rise) bool {
	return a.namespace == "" || a.namespace == namespaceOf(r.object)
}

// suspendedAt reports whether the alarm was suspended at a time.
func (a *alarmState) suspendedAt(at time.Time) bool {
	return slices.ContainsFunc(a.suspensions, func(s [2]time.Time) bool { return !at.Before(s[0]) && (s[1].IsZero() || at.Before(s[1])) })
}

// suspendedSince reports whether the alarm was suspended at a time or later.
func (a *alarmState) suspendedSince(at time.Time) bool {
	return slices.ContainsFunc(a.suspensions, func(s [2]time.Time) bool { return s[1].IsZero() || at.Before(s[1]) })
}

func (w *world) alarm(name string) *alarmState {
	i := slices.IndexFunc(w.alarms, func(a *alarmState) bool { return a.name == name })
	return w.alarms[i]
}

// receives reports whether the receiver with a UID is one of the alarm's.
func (w *world) receives(a *alarmState, uid string) bool {
	return slices.ContainsFunc(a.receivers, func(key string) bool { return w.receivers[key].uid == uid })
}

// createdAfter reports whether the receiver was created after a time, or in the same second.
func (e *endpoint) createdAfter(at time.Time) bool {
	return e.recreated && e.created.Truncate(time.Second).Add(time.Second).After(at)
}

// newWorld returns a world whose first leader has begun to read.
func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{ctx: context.WithoutCancel(t.Context()), dir: dir, cluster: newCluster(), receivers: map[string]*endpoint{}, newest: -1, ledIn: map[int]int{}}
	w.model = newModel(w)
	all, err := compiled()
	w.must(err)
	for i := range all {
		state := all[i]
		w.alarms = append(w.alarms, &state)
	}
	for range replicas {
		w.disks = append(w.disks, w.newDisk())
	}
	for _, key := range receiverKeys {
		w.receivers[key] = &endpoint{key: key, uid: strings.ReplaceAll(key, "/", "."), limits: limitsOf(key)}
	}
	w.leader = w.start(0)
	w.wait(time.Second)
	return w
}

// limitsOf returns the rate limits of a receiver.
func limitsOf(key string) []notify.Limit {
	if key == limited {
		return []notify.Limit{{Every: 20 * time.Second}}
	}
	return nil
}

// position returns the position up to which the leader has stored occurrences, or the last one
// did.
func (w *world) position() uint64 {
	if w.leader == nil {
		return w.read
	}
	return w.leader.store.State().Position
}

func (w *world) newDisk() string {
	w.made++
	dir := filepath.Join(w.dir, fmt.Sprint(w.made))
	w.must(os.Mkdir(dir, 0o700))
	return dir
}

// must ends the test, because a part of it failed that has nothing to do with the operator.
func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) failf(format string, args ...any) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	w.model.failf(format, args...)
}

// wait advances the clock, and waits until everything waits for the clock.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	w.revive()
	if w.caughtUp() {
		w.model.mu.Lock()
		w.model.behind = false
		w.model.mu.Unlock()
	}
}

func (c *cluster) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// put writes an Event with a count. Without an increase, the count falls.
func (w *world) put(kind watch.EventType, e *eventsv1.Event, object int, increase int32) {
	defer w.lock()()
	m, uid := w.model, string(e.UID)
	serial := len(m.rises)
	e.Note = fmt.Sprint("occurrence #", serial)
	version := w.cluster.write(kind, e)
	fell := slices.ContainsFunc(m.rises, func(r *rise) bool { return r.uid == uid && r.increase == 0 })
	m.rises = append(m.rises, &rise{serial: serial, uid: uid, object: object, version: version, at: time.Now(), increase: increase, fell: fell, merged: m.behind, undone: m.behind && m.changed[uid], recovers: e.Reason == recovered})
	m.last[uid] = version
}

// lock locks the cluster and then the model, as a write of the checkpoint does. Any other order can
// be a deadlock.
func (w *world) lock() (unlock func()) {
	w.cluster.mu.Lock()
	w.model.mu.Lock()
	return func() {
		w.model.mu.Unlock()
		w.cluster.mu.Unlock()
	}
}

// caughtUp reports whether the leader has read everything.
func (w *world) caughtUp() bool {
	var version uint64
	w.cluster.locked(func() { version = w.cluster.version })
	return w.leader != nil && !w.cluster.isDown() && w.leader.source.State().Position >= version
}

// heal makes all objects readable, and receivers with these behaviours accept everything.
func (w *world) heal(which func(behaviour) bool) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	for _, e := range w.receivers {
		if which(e.behaviour) {
			e.behaviour = accepts
		}
	}
	clear(w.model.unreadable)
}

// setAsideHours is how long it takes until all messages that a receiver refuses are set aside.
// It is up to an hour for each object and group. Each is then retried after setAsidePause.
const (
	setAsideHours = 12
	setAsidePause = 65 * time.Minute
)

// end lets everything work again, waits, and returns the problems.
func (w *world) end() []string {
	w.setDown(false)
	if w.leader == nil {
		w.leader = w.start(0)
	}
	for i := range receiverKeys {
		w.create(i, 0)
	}
	w.heal(func(b behaviour) bool { return b != poisoned })
	w.wait(30 * time.Minute)
	for range setAsideHours {
		if len(w.model.delayed()) == 0 {
			break
		}
		w.wait(time.Hour)
	}
	w.model.problems = append(w.model.problems, w.model.delayed()...)
	w.heal(func(behaviour) bool { return true })
	w.wait(setAsidePause)
	if n := w.leader.store.Size().Entries; n > 0 {
		w.failf("messages wait at the end: %d", n)
	}
	w.stop()
	for _, p := range w.killed {
		<-p.ended
	}
	return w.model.check()
}
