package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/operations"
)

// pauses are the times of the operation wait.
var pauses = []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}

var kinds = operations.Kinds[*world]{
	"set":         {Weight: 30, Apply: func(w *world, o operations.Operation) { w.set(o.A%len(slots), o.B) }},
	"delete":      {Weight: 8, Apply: func(w *world, o operations.Operation) { w.remove(o.A%len(slots), o.B) }},
	"recreate":    {Weight: 7, Apply: func(w *world, o operations.Operation) { w.recreate(o.A%len(slots), o.B) }},
	"edit":        {Weight: 24, Apply: func(w *world, o operations.Operation) { w.edit(o.A, o.B) }},
	"removeChild": {Weight: 6, Apply: func(w *world, o operations.Operation) { w.removeChild(o.A, o.B) }},
	"hold": {Weight: 3, Apply: func(w *world, o operations.Operation) {
		w.hold(w.child(childKinds[o.A%6], o.B))
	}},
	"release": {Weight: 3, Apply: func(w *world, _ operations.Operation) { w.release() }},
	"source":  {Weight: 4, Apply: func(w *world, o operations.Operation) { w.source(o.A, o.B) }},
	"label":   {Weight: 2, Apply: func(w *world, o operations.Operation) { w.label(o.A%3 > 0) }},
	"purge":   {Weight: 1, Apply: func(w *world, o operations.Operation) { w.purge(o.A%2 == 1) }},
	"kill":    {Weight: 4, Apply: func(w *world, _ operations.Operation) { w.kill() }},
	"start":   {Weight: 6, Apply: func(w *world, _ operations.Operation) { w.start() }},
	"wait":    {Weight: 12, Apply: func(_ *world, o operations.Operation) { time.Sleep(pauses[o.A%len(pauses)]) }},
}

// runner runs sequences in a cluster.
type runner struct {
	cluster *cluster.Cluster
	worlds  int
	counts  counts
}

func (r *runner) run(t *testing.T, sequence []operations.Operation) []string {
	t.Helper()
	r.worlds++
	w := newWorld(t, r.cluster, r.worlds, &r.counts)
	defer func() {
		if w.operator != nil {
			w.operator.Kill()
		}
	}()
	for _, o := range sequence {
		kinds[o.Kind].Apply(w, o)
	}
	w.end()
	if len(w.problems) > 0 {
		t.Logf("the end of the operator's log:\n%s", tail(w.log.String()))
	}
	return w.problems
}

// tail returns the end of a log, without its messages about starts.
func tail(log string) string {
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool { return strings.Contains(line, `"msg":"Starting`) })
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// Users create, change and delete objects, and edit what the operator made. The operator is
// killed, and misses operations. In the end, everything must be as in fresh namespaces.
func TestRandomSequencesEndAsAFreshOperatorWouldMakeIt(t *testing.T) {
	r := &runner{cluster: cluster.Shared(t)}
	begin := time.Now()
	passed := operations.Test(t, kinds, 30, 70, r.run)
	t.Attr("summary", fmt.Sprintf("%d random sequences with %d operations and %d kills in %s",
		passed, r.counts.applied, r.counts.kills, time.Since(begin).Round(time.Second)))
}

// end lets the objects settle, and compares them with those of fresh namespaces.
func (w *world) end() {
	if len(w.problems) > 0 {
		return
	}
	w.release()
	w.start()
	w.abandonBackups()
	w.settle()
	if len(w.problems) > 0 {
		return
	}
	fresh := site{strings.Replace(w.home.a, "home", "fresh", 1), strings.Replace(w.home.b, "home", "fresh", 1)}
	w.populate(fresh)
	w.compare(fresh)
	w.expectNoWrites()
	w.expectNoWarnings()
	w.clear(w.home, fresh)
}

// abandonBackups ends the deletion of apps whose backup fails.
func (w *world) abandonBackups() {
	abandon := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+v1alpha1.AnnotationAbandonBackup+`": "true"}}}`))
	for i := range slots {
		o := slots[i].object(w.home)
		if w.manifests[i] >= 0 {
			continue
		}
		err := w.poll(func(ctx context.Context) (bool, error) {
			err := w.cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err == nil && slots[i].kind == v1alpha1.KindAppService && o.GetAnnotations()[v1alpha1.AnnotationAbandonBackup] == "" {
				w.wrong[i] = true
				err = w.cluster.Client.Patch(ctx, o, abandon)
			}
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if errors.Is(err, context.DeadlineExceeded) {
			w.problem("kept: %s %s is deleted, but still exists: %v", slots[i].kind, slots[i].name, o.Object["status"])
		} else {
			w.must(err)
		}
	}
}

// settle removes what depends on earlier manifests by design.
func (w *world) settle() {
	for i := range slots {
		switch m := w.manifests[i]; {
		case m < 0:
		case slots[i].manifests[m].ending:
			w.must(w.replaceSpec(i, 0))
			w.manifests[i] = 0
		case slots[i].manifests[m].stale:
			w.restart(i)
		}
	}
	if w.purged { // the rules do not trust the new namespace until they are written again
		w.rewriteShares()
	}
	// The operator does not restore them, so that an edit of theirs cannot always be undone.
	for _, o := range append(w.dropped(), w.cutOff()...) {
		w.must(client.IgnoreNotFound(w.cluster.Client.Delete(w.t.Context(), &o)))
	}
	w.undoEdits()
}

// restart stops the pods of an app and starts it again.
func (w *world) restart(i int) {
	o, m := slots[i].object(w.home), w.manifests[i]
	w.must(w.replaceWith(i, slots[i].manifests[m].spec+"suspend: true"))
	err := w.poll(func(ctx context.Context) (bool, error) {
		err := w.cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		state, _, _ := unstructured.NestedString(o.Object, "status", "state")
		return state == string(v1alpha1.StateSuspended), err
	})
	if err != nil {
		w.problem("suspend: %s %s does not stop: %v", slots[i].kind, slots[i].name, o.Object["status"])
	}
	w.must(w.replaceSpec(i, m))
}

// rewriteShares writes the rules and grants again.
func (w *world) rewriteShares() {
	for i := range slots {
		m := w.manifests[i]
		if m < 0 || slots[i].namespace == "A" {
			continue
		}
		other := (m + 1) % len(slots[i].manifests)
		w.must(w.replaceSpec(i, other))
		time.Sleep(time.Second)
		w.must(w.replaceSpec(i, m))
	}
}

// populate creates the same objects at another site.
func (w *world) populate(at site) {
	w.found(at)
	w.must(w.setLabel(at, w.target))
	for name, value := range w.secrets {
		w.must(w.cluster.Client.Create(w.t.Context(), sourceOf(at, name, value)))
	}
	for i, m := range w.manifests {
		if m >= 0 {
			w.must(w.create(at, i, m))
		}
	}
}

// mayDiffer reports whether a child may be there or not, or be that of an earlier manifest.
func (w *world) mayDiffer(kind, owner string) bool {
	for i := range slots {
		if slots[i].name != owner {
			continue
		}
		if w.manifests[i] < 0 {
			return w.retained[i] || w.orphaned[i] || kind == "PersistentVolumeClaim"
		}
		m := slots[i].manifests[w.manifests[i]]
		return m.refused || kind == "PersistentVolumeClaim" && !strings.Contains(m.spec, "storage")
	}
	return false
}

// compare waits until the objects are those of the fresh site.
func (w *world) compare(fresh site) {
	var found []string
	err := w.poll(func(context.Context) (bool, error) {
		found = differences(w.snapshot(w.home, w.mayDiffer), w.snapshot(fresh, w.mayDiffer))
		return len(found) == 0, nil
	})
	if err != nil {
		w.problem("different: %s", strings.Join(found, "\n"))
	}
}

// expectNoWrites waits until the operator writes nothing.
func (w *world) expectNoWrites() {
	var found []audit.Request
	err := w.poll(func(context.Context) (bool, error) {
		begin := time.Now()
		time.Sleep(quiet)
		found = slices.DeleteFunc(audit.Requests(w.t, w.cluster.AuditLog(), audit.Operator), func(r audit.Request) bool {
			return r.Received.Before(begin) || slices.Contains([]string{"get", "list", "watch"}, r.Verb) || r.Resource == "leases"
		})
		return len(found) == 0, nil
	})
	if err != nil {
		w.problem("writes: the settled cluster gets %d requests: %v", len(found), found[:min(len(found), 5)])
	}
}

// expectNoWarnings checks that objects that were never wrong have no Warnings of the operator.
func (w *world) expectNoWarnings() {
	var all eventsv1.EventList
	w.must(w.cluster.Client.List(w.t.Context(), &all))
	for _, e := range all.Items {
		if e.Type != corev1.EventTypeWarning || !strings.HasSuffix(e.ReportingController, "-controller") {
			continue
		}
		for i := range slots {
			o := slots[i].object(w.home)
			if e.Regarding.Kind == slots[i].kind && e.Regarding.Name == o.GetName() && e.Regarding.Namespace == o.GetNamespace() && !w.wrong[i] {
				w.problem("warning: %s %s was never wrong: %s: %s", slots[i].kind, slots[i].name, e.Reason, e.Note)
			}
		}
	}
}

// clear deletes everything.
func (w *world) clear(sites ...site) {
	var names []string
	for _, at := range sites {
		w.must(client.IgnoreNotFound(w.cluster.Client.Delete(w.t.Context(), slots[clusterShare].object(at))))
		names = append(names, at.a, at.b)
	}
	w.deleteNamespaces(names...)
}
