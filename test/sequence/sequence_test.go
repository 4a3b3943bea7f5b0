// Package sequence tests the alarm path with random sequences of operations. Events occur,
// the API server forgets them, receivers fail, processes are killed and disks are lost. The
// parts of the operator from the event source to the receivers are real, and so are the files
// of the outbox. The API server, the receivers and the clock are simulated.
//
// A model decides what each receiver must get, may get twice, and must not get. It follows
// docs/guarantees.md. To run a sequence that failed again:
//
//	go test ./test/sequence -sequence.ops='occur(1) kill lead(2)'
//
// The random pauses between retries, and the order in which goroutines run, do not depend on
// the seed. A sequence can therefore fail in some of its runs only.
package sequence

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/testing/operations"
)

// pauses are the times of the operation wait.
var pauses = []time.Duration{
	3 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 900 * time.Millisecond,
	6 * time.Second, 30 * time.Second, 70 * time.Second, 5 * time.Minute,
}

var kinds = operations.Kinds[*world]{
	"occur":      {Weight: 20, Apply: func(w *world, o operations.Operation) { w.occur(o.A % 6) }},
	"recover":    {Weight: 6, Apply: func(w *world, o operations.Operation) { w.recover(o.A % 6) }},
	"rise":       {Weight: 20, Apply: func(w *world, o operations.Operation) { w.rise(o.A, int32(1+o.B%4)) }},
	"fall":       {Weight: 4, Apply: func(w *world, o operations.Operation) { w.fall(o.A) }},
	"expire":     {Weight: 3, Apply: func(w *world, o operations.Operation) { w.expire(o.A) }},
	"compact":    {Weight: 3, Apply: func(w *world, _ operations.Operation) { w.compact() }},
	"snapshot":   {Weight: 4, Apply: func(w *world, _ operations.Operation) { w.snapshot() }},
	"restore":    {Weight: 3, Apply: func(w *world, o operations.Operation) { w.restore(o.A) }},
	"wait":       {Weight: 20, Apply: func(w *world, o operations.Operation) { w.wait(pauses[o.A%len(pauses)]) }},
	"cut":        {Weight: 2, Apply: func(w *world, _ operations.Operation) { w.cluster.locked(w.cluster.breakWatches) }},
	"down":       {Weight: 1, Apply: func(w *world, _ operations.Operation) { w.setDown(true) }},
	"up":         {Weight: 4, Apply: func(w *world, _ operations.Operation) { w.setDown(false) }},
	"stop":       {Weight: 1, Apply: func(w *world, _ operations.Operation) { w.lead(-1, true) }},
	"kill":       {Weight: 3, Apply: func(w *world, _ operations.Operation) { w.lead(-1, false) }},
	"lead":       {Weight: 6, Apply: func(w *world, o operations.Operation) { w.lead(o.A%replicas, o.B%2 == 0) }},
	"wipe":       {Weight: 2, Apply: func(w *world, o operations.Operation) { w.wipe(o.A % replicas) }},
	"behave":     {Weight: 10, Apply: func(w *world, o operations.Operation) { w.behave(o.A, behaviour(o.B)%behaviours) }},
	"heal":       {Weight: 5, Apply: func(w *world, o operations.Operation) { w.behave(o.A, accepts) }},
	"suspend":    {Weight: 2, Apply: func(w *world, o operations.Operation) { w.suspend(o.A%2, true) }},
	"resume":     {Weight: 3, Apply: func(w *world, o operations.Operation) { w.suspend(o.A%2, false) }},
	"unreadable": {Weight: 4, Apply: func(w *world, o operations.Operation) { w.unreadable(o.A%6, true) }},
	"readable":   {Weight: 4, Apply: func(w *world, o operations.Operation) { w.unreadable(o.A%6, false) }},
	"replace":    {Weight: 2, Apply: func(w *world, o operations.Operation) { w.replace(o.A, o.B) }},
	"delete":     {Weight: 2, Apply: func(w *world, o operations.Operation) { w.remove(o.A) }},
	"create":     {Weight: 6, Apply: func(w *world, o operations.Operation) { w.create(o.A, o.B) }},
}

// run runs a sequence and returns what is wrong.
func run(t *testing.T, sequence []operations.Operation) (problems []string) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compiled(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		for _, o := range sequence {
			kinds[o.Kind].Apply(w, o)
			w.wait(time.Millisecond)
		}
		problems = w.end()
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return problems
}

// Events occur, are counted up and down and expire, while processes end and lose their disks,
// and while receivers and the API server fail. Each receiver must get what docs/guarantees.md
// promises, and nothing else.
func TestRandomSequencesKeepTheGuarantees(t *testing.T) {
	begin := time.Now()
	passed := operations.Test(t, kinds, 20, 79, run)
	t.Attr("summary", fmt.Sprintf("%d random sequences in %s", passed, time.Since(begin).Round(time.Second)))
}

// Sequences that failed once.
func TestSequencesThatFailedKeepTheGuarantees(t *testing.T) {
	for name, sequence := range map[string]string{
		"a failover after a compaction, and an Event that is deleted before it was sent":       "occur(4) wait(4) compact rise(5,2) expire lead(2)",
		"a watch that breaks before it brings anything":                                        "cut occur(2) expire",
		"a restore that raises a count again, before a receiver is replaced":                   "recover(13,16) wait(23,11) heal(7,21) rise(2,0) snapshot(19,22) rise(18,4) wait(18,17) rise(22,1) wait(17,22) snapshot(11,1) wait(3,19) fall(17,3) create(15,18) rise(10,6) occur(5,20) restore(21,17) wait(3,8) resume(17,15) occur(18,13) behave(7,6) replace(3,7) cut(6,6) suspend(4,13)",
		"a restore of the checkpoint of the leader before, without a receiver":                 "delete(16,5) lead(10,5) occur(18,16) snapshot(17,22) rise(12,6) wait(21,5) restore(4,6) unreadable(6,1) wait(13,8)",
		"a restore before another leader writes its checkpoint, while something waits":         "snapshot(18,15) lead(18,5) delete(5,18) occur(21,7) wait(22,21) rise(0,7) lead(6,18) restore(22,7)",
		"a restore of the checkpoint of a replica, whose outbox lacks what another one sent":   "snapshot(22,2) recover(17,6) lead(11,11) wait(20,3) lead(15,15) restore(0,10) kill(8,4)",
		"an Event that a restore brings back, and whose count rises before it is listed":       "occur(22,2) occur(14,0) wait(15,9) recover(3,12) snapshot(1,7) expire(18,18) expire(5,18) down(10,19) restore(14,16) rise(2,17)",
		"a problem of a receiver that was replaced, and a recovery after a failover":           "kill(19,10) occur(7,21) wait(6,19) lead(5,13) replace(10,15) kill(6,8) recover(19,1)",
		"a problem after a recovery that the receiver refused":                                 "occur(20,0) stop(22,15) rise(16,12) rise(11,0) wait(13,21) occur(6,0) behave(12,19) rise(10,16) recover(2,6) replace(21,0) delete(18,14) rise(18,20)",
		"a leader with messages from before a restore":                                         "occur(12,18) occur(9,5) occur(15,11) rise(9,1) wait(13,14) lead(2,8) replace(17,10) occur(10,18) heal(18,5) recover(6,3) wait(18,4) create(3,5) behave(18,9) snapshot(11,21) occur(3,23) wait(19,3) behave(0,18) fall(0,2) expire(10,7) restore(7,4) wipe(19,21) replace(4,20) lead(6,22) replace(6,7)",
		"messages that wait over a restore, before another replica leads":                      "compact(3,23) occur(12,18) wait(18,13) occur(9,5) behave(12,6) suspend(11,5) occur(15,11) rise(9,1) rise(21,19) occur(7,18) wait(13,1) wait(13,14) lead(2,8) replace(17,10) suspend(21,4) wait(10,2) occur(10,18) heal(16,16) heal(18,5) recover(6,3) wait(18,4) create(3,5) behave(18,9) snapshot(11,21) occur(3,23) wait(19,3) rise(21,7) up(0,10) behave(0,18) fall(0,2) expire(10,7) restore(7,4) wait(8,15) occur(4,14) unreadable(7,11) heal(21,9) behave(3,16) behave(10,8) occur(11,20) recover(5,11) wipe(19,21) replace(4,20) occur(19,21) compact(1,13) occur(16,9) expire(7,21) snapshot(15,9) delete(22,12) behave(4,17) behave(22,5) create(16,18) fall(9,8) behave(22,11) snapshot(11,18) recover(10,6) occur(1,9) rise(10,9) heal(6,19) snapshot(20,10) occur(15,22) wait(1,16) occur(12,23) wait(10,6) rise(13,3) snapshot(1,0) behave(18,21) readable(8,7) readable(19,2) wait(1,1) rise(11,3) down(10,11) rise(12,4) heal(11,22) lead(6,22) replace(6,7)",
		"a recovery that a receiver refuses, before its count rises":                           "recover(9,13) recover(12,19) recover(0,13) expire(10,7) rise(0,5) rise(21,21) rise(17,13) rise(6,0) expire(5,13) delete(15,5) recover(5,3) expire(15,18) recover(15,2) rise(10,20) rise(23,19) fall(0,6) occur(18,23) rise(20,2) rise(23,21) rise(2,15) rise(4,14) fall(1,18) behave(17,5) occur(11,13) rise(6,18) rise(15,14) occur(15,22) wait(14,22) recover(10,19) occur(14,5) rise(5,10) recover(21,22) rise(15,16)",
		"a restore while a leader takes over, which then reads its old checkpoint":             "lead(14,21) occur(11,7) wait(12,2) snapshot(6,1) rise(9,18) restore(18,12) lead(23,0) wait(20,0) snapshot(0,4) lead(14,9) snapshot(3,17) restore(9,1)",
		"a takeover while something waits since a restore, and minutes after the last message": "heal(19,0) recover(8,18) recover(18,13) behave(6,12) wait(15,2) snapshot(22,7) expire(20,1) recover(5,7) occur(10,10) occur(19,23) restore(23,0) compact(8,7) replace(9,10) wait(3,23) fall(13,1) fall(19,5) wipe(10,8) lead(2,20)",
		"a failover at once, and one while something waits since a restore":                    "occur(12,13) wait(19,4) wipe(6,19) lead(4,22) wait(21,5) occur(1,19) snapshot(10,22) rise(6,10) restore(5,16) wait(4,0) lead(0,13)",
		"messages that wait behind one that was set aside, at a receiver with a rate limit":    "behave(3,6) occur occur(1) wait(7) wait(7) wait(7) rise rise rise(1) rise(1) behave(3,6)", //nolint:dupword // operations
	} {
		t.Run(name, func(t *testing.T) {
			for _, problem := range run(t, kinds.Parse(t, sequence)) {
				t.Error(problem)
			}
		})
	}
}

func (w *world) occur(object int) {
	e := w.cluster.newEvent(object)
	w.put(watch.Added, e, object, 1)
	w.live = append(w.live, e)
}

// recover lets an object recover, which resolves its group.
func (w *world) recover(object int) {
	e := w.cluster.newEvent(object)
	e.Reason = recovered
	w.put(watch.Added, e, object, 1)
	w.live = append(w.live, e)
}

// rise increases the count of a live Event.
func (w *world) rise(i int, by int32) {
	if len(w.live) == 0 {
		return
	}
	e := w.live[i%len(w.live)]
	setCount(e, countOf(e)+by)
	w.put(watch.Modified, e, objectOf(e), by)
}

// fall sets a count back to 1.
func (w *world) fall(i int) {
	if len(w.live) == 0 {
		return
	}
	if e := w.live[i%len(w.live)]; countOf(e) > 1 {
		setCount(e, 1)
		w.put(watch.Modified, e, objectOf(e), 0)
	}
}

// expire deletes a live Event.
func (w *world) expire(i int) {
	if len(w.live) == 0 {
		return
	}
	i %= len(w.live)
	e := w.live[i]
	w.live = slices.Delete(w.live, i, i+1)
	w.cluster.locked(func() { w.model.last[string(e.UID)] = w.cluster.write(watch.Deleted, e) })
}

// compact makes the API server forget its history.
func (w *world) compact() {
	synctest.Wait()
	var read uint64
	if w.leader != nil {
		read = w.leader.source.State().Position
	}
	var version uint64
	w.cluster.locked(func() { version, w.cluster.compacted = w.cluster.version, w.cluster.version })
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	w.model.compactions++
	w.model.behind = w.model.behind || read < version // also if it was only a deletion
	for _, r := range w.model.rises {
		r.merged = r.merged || r.version > read
	}
}

// snapshot keeps the state of etcd.
func (w *world) snapshot() {
	w.cluster.locked(func() { w.snapshots = append(w.snapshots, w.cluster.snapshot()) })
}

// restore goes back to a snapshot of etcd. Receivers and alarms stay as they are.
func (w *world) restore(i int) {
	if len(w.snapshots) == 0 {
		return
	}
	synctest.Wait()
	read := w.read
	if w.leader != nil {
		read = w.leader.source.State().Position
		w.leader.restored = true
	}
	w.newest = w.last
	i %= len(w.snapshots)
	to := w.snapshots[i]
	w.snapshots = w.snapshots[:i+1] // the others belong to another history
	w.goBack(to, read)
	if p := w.leader; p != nil && !p.led && !w.ownsTerm(p.store.State()) {
		p.foreign = true // it takes over with the restored checkpoint
		w.resumes(p)
	}
}

func (w *world) goBack(to snapshot, read uint64) {
	defer w.lock()()
	w.cluster.restore(to)
	w.live = nil
	for _, e := range w.cluster.at(to.version) {
		w.live = append(w.live, e.DeepCopy())
	}
	w.model.restored(to.version, read)
}

func (w *world) setDown(down bool) {
	defer w.lock()()
	if down || w.cluster.down {
		w.model.apiFailed = time.Now()
	}
	if w.cluster.down = down; down {
		w.cluster.breakWatches()
	}
}

// lead makes a replica the leader, after the present one stops or is killed. -1 is none.
func (w *world) lead(replica int, graceful bool) {
	switch {
	case w.leader == nil:
	case graceful:
		w.stop()
	default:
		w.kill()
	}
	if replica >= 0 {
		w.leader = w.start(replica)
	}
}

// wipe loses the disk of a replica, which is killed first if it leads.
func (w *world) wipe(replica int) {
	if w.leader != nil && w.leader.replica == replica {
		w.kill()
	}
	w.disks[replica] = w.newDisk()
	delete(w.ledIn, replica)
}

func (w *world) behave(receiver int, b behaviour) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	e := w.receivers[receiverKeys[receiver%len(receiverKeys)]]
	e.behaviour, e.poison = b, len(w.model.rises)-3
}

// suspend suspends or resumes an alarm, as "kubectl patch" does.
func (w *world) suspend(i int, suspend bool) {
	a := w.alarms[i]
	if a.suspended == suspend {
		return
	}
	w.wait(2 * time.Second) // times are in seconds
	a.suspended = suspend
	now := time.Now()
	w.model.mu.Lock()
	if suspend {
		a.suspensions = append(a.suspensions, [2]time.Time{now})
	} else {
		a.suspensions[len(a.suspensions)-1][1] = now
		a.definition.ResumedAt = now.Truncate(time.Second)
	}
	w.model.mu.Unlock()
	compiler, err := compilerOf()
	w.must(err)
	a.compiled, err = compiler.Compile(a.definition)
	w.must(err)
	if w.leader != nil {
		w.leader.apply(a)
	}
	w.wait(2 * time.Second)
}

// unreadable makes the reads of an object fail, or succeed again.
func (w *world) unreadable(object int, fails bool) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	w.model.unreadable[nameOf(object)] = fails
}

// remove deletes a receiver, which the operator observes.
func (w *world) remove(i int) {
	e := w.receivers[receiverKeys[i%len(receiverKeys)]]
	if e.isDeleted() || w.cluster.isDown() {
		return
	}
	w.markDeleted(e)
	if w.leader != nil {
		w.leader.dispatcher.Forget(e.key)
	}
}

// replace deletes a receiver and creates it again at once.
func (w *world) replace(i, j int) {
	if e := w.receivers[receiverKeys[i%len(receiverKeys)]]; !e.isDeleted() && !w.cluster.isDown() {
		w.markDeleted(e)
	}
	w.create(i, j)
}

func (w *world) markDeleted(e *endpoint) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	e.deleted = time.Now()
}

// unobserved is the longest time after which the controller observes a new receiver.
const unobserved = 2 * latency

// create creates a receiver that does not exist. The operator's cache has it before its
// controller observes it.
func (w *world) create(i, j int) {
	former := w.receivers[receiverKeys[i%len(receiverKeys)]]
	if !former.isDeleted() || w.cluster.isDown() {
		return
	}
	w.made++
	e := &endpoint{
		key: former.key, uid: fmt.Sprint(strings.ReplaceAll(former.key, "/", "."), "#", w.made), limits: former.limits,
		created: time.Now(), recreated: true, unobserved: w.leader == nil, read: w.position(),
	}
	w.model.mu.Lock()
	w.receivers[e.key] = e
	w.model.mu.Unlock()
	w.wait(time.Duration(j%3) * unobserved / 2)
	if w.leader != nil {
		w.leader.configure(e)
	}
	w.wait(2 * time.Second)
}
