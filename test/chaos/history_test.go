package chaos

import (
	"context"
	"strconv"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// history is what watches told of the Jobs and of the parts of apps, by app.
type history struct {
	mu   sync.Mutex
	jobs map[string]map[types.UID]bool
	// completed and removed are the positions at which a Job was complete, and at which
	// the first part was deleted. The API server counts them for all kinds together.
	completed, removed map[string]uint64
	// left are the parts that there are.
	left map[types.UID]bool
}

// watchHistory begins to watch, for the length of the test.
func (a *apps) watchHistory() *history {
	a.t.Helper()
	h := &history{
		jobs: map[string]map[types.UID]bool{}, completed: map[string]uint64{}, removed: map[string]uint64{}, left: map[types.UID]bool{},
	}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	a.t.Cleanup(func() { stop(); readers.Wait() })
	jobs := child{"", func() client.ObjectList { return &batchv1.JobList{} }}
	for _, kind := range append([]child{jobs}, appParts...) {
		w, err := a.Client.Watch(ctx, kind.list(), client.InNamespace(a.namespace), client.HasLabels{v1alpha1.LabelAppService})
		if err != nil {
			a.t.Fatal(err)
		}
		readers.Go(func() { h.read(ctx, a.t, w) })
	}
	return h
}

// read notes what a watch tells until the context ends.
func (h *history) read(ctx context.Context, t *testing.T, w watch.Interface) {
	for e := range w.ResultChan() {
		if ctx.Err() != nil {
			return
		}
		h.note(t, e)
	}
	if ctx.Err() == nil {
		t.Error("a watch ended")
	}
}

func (h *history) note(t *testing.T, e watch.Event) {
	o, isObject := e.Object.(client.Object)
	if !isObject {
		t.Errorf("a watch told of %v: %v", e.Type, e.Object)
		return
	}
	position, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if job, isJob := o.(*batchv1.Job); isJob {
		h.noteJob(job, position)
		return
	}
	h.left[o.GetUID()] = true
	if e.Type == watch.Deleted {
		delete(h.left, o.GetUID())
	}
	if e.Type == watch.Deleted || !o.GetDeletionTimestamp().IsZero() {
		first(h.removed, o, position)
	}
}

// noteJob needs the lock.
func (h *history) noteJob(job *batchv1.Job, position uint64) {
	app := job.Labels[v1alpha1.LabelAppService]
	if h.jobs[app] == nil {
		h.jobs[app] = map[types.UID]bool{}
	}
	h.jobs[app][job.UID] = true
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			first(h.completed, job, position)
		}
	}
}

// first keeps the lowest of an app's positions.
func first(of map[string]uint64, o client.Object, position uint64) {
	app := o.GetLabels()[v1alpha1.LabelAppService]
	if known, ok := of[app]; !ok || position < known {
		of[app] = position
	}
}

func (h *history) countJobs(app string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.jobs[app])
}

func (h *history) countLeft() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.left)
}

func (h *history) isRemoved(app string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.removed[app] > 0
}

// assertBackedUpFirst fails unless an app had one Job, which was complete before
// anything of the app was removed.
func (h *history) assertBackedUpFirst(t *testing.T, app string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.jobs[app]); n != 1 {
		t.Errorf("%s had %d Jobs", app, n)
	}
	completed, removed := h.completed[app], h.removed[app]
	if completed == 0 || removed < completed {
		t.Errorf("%s: its Job was complete at %d, its first part removed at %d", app, completed, removed)
	}
}
