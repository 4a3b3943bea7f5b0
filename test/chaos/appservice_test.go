package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
)

const (
	// startedApps is the number of apps that start during kills.
	startedApps = 50
	// served is a spec with a Service.
	served = "size: 2\nports: [{name: http, containerPort: 8080}]\n"
	// byJob is a backup by a Job whose pod the test controls.
	byJob = `
backup:
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {bongsu-local/simulate: none}}
        spec: {containers: [{name: save, image: example.org/save}]}
`
)

// appParts are all kinds of an app's children. The operator creates the first two itself.
var appParts = []child{
	{"", func() client.ObjectList { return &appsv1.DeploymentList{} }},
	{"", func() client.ObjectList { return &corev1.ServiceList{} }},
	{"", func() client.ObjectList { return &appsv1.ReplicaSetList{} }},
	{"", func() client.ObjectList { return &corev1.PodList{} }},
}

// apps are the AppServices of a namespace in a simulation.
type apps struct {
	*simulation
	namespace string
}

func newApps(t *testing.T) *apps {
	t.Helper()
	w := newSimulation(t)
	return &apps{simulation: w, namespace: w.newNamespace()}
}

func appName(i int) string { return fmt.Sprintf("app-%03d", i) }

// createApp creates an AppService, with a spec in YAML.
func (a *apps) createApp(i int, spec string) error {
	return a.Client.Create(a.t.Context(), cluster.Manifest(a.t, v1alpha1.KindAppService, a.namespace, appName(i), spec))
}

func (a *apps) deleteApp(i int, policy metav1.DeletionPropagation) {
	a.t.Helper()
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: appName(i)}}
	if err := a.Client.Delete(a.t.Context(), app, client.PropagationPolicy(policy)); err != nil {
		a.t.Fatal(err)
	}
}

// all returns the AppServices.
func (a *apps) all() []v1alpha1.AppService {
	a.t.Helper()
	var list v1alpha1.AppServiceList
	if err := a.Client.List(a.t.Context(), &list, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	return list.Items
}

// awaitReady waits until all AppServices are ready.
func (a *apps) awaitReady() {
	a.t.Helper()
	notReady := func() []string {
		var names []string
		for _, app := range a.all() {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) || app.Status.ObservedGeneration != app.Generation {
				names = append(names, app.Name+": "+cluster.Reason(&app))
			}
		}
		return names
	}
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(notReady()) }); err != nil {
		a.t.Fatalf("AppServices that are not ready, with their reasons: %v: %q", err, head(notReady()))
	}
}

// problems returns children without an AppService, and AppServices with a wrong number of
// children.
func (a *apps) problems() []string {
	a.t.Helper()
	existing := map[string]v1alpha1.AppService{}
	for _, app := range a.all() {
		existing[app.Name] = app
	}
	var found []string
	for _, part := range appParts {
		count := map[string]int{}
		for _, o := range a.childrenOf(a.namespace, part) {
			name := o.GetLabels()[v1alpha1.LabelAppService]
			count[name]++
			uid, isMarked := o.GetAnnotations()[v1alpha1.AnnotationOwnerUID]
			if app, exists := existing[name]; !exists || isMarked && uid != string(app.UID) {
				found = append(found, fmt.Sprintf("%T %s has no owner", o, o.GetName()))
			}
		}
		for name, app := range existing {
			want := 1
			if _, arePods := part.list().(*corev1.PodList); arePods {
				want = int(app.Spec.Size)
			}
			if count[name] != want {
				found = append(found, fmt.Sprintf("%s has %d children of type %T, want %d", name, count[name], part.list(), want))
			}
		}
	}
	return found
}

func TestKillsWhileAppsStartLeaveOneOfEachChild(t *testing.T) {
	t.Parallel()
	a := newApps(t)
	m := newManager(a.fixture)
	m.startReady()
	const perRound = startedApps / kills
	var createdAtKill []string
	for round := range kills {
		// Kill the operator when it has created some objects of one kind, usually not all.
		kind := appParts[round%2]
		before := len(a.childrenOf(a.namespace, kind))
		more := rand.IntN(perRound)
		a.each(round*perRound, (round+1)*perRound, func(i int) error {
			// The children of an app with a backup have no owner reference.
			return a.createApp(i, served+[]string{byJob, ""}[i%2])
		})
		a.g.Eventually(func() int { return len(a.childrenOf(a.namespace, kind)) - before }).
			WithTimeout(patience).WithPolling(2 * time.Millisecond).Should(gomega.BeNumerically(">=", more))
		m.kill()
		createdAtKill = append(createdAtKill, fmt.Sprint(len(a.childrenOf(a.namespace, kind))-before))
		if first := round * perRound; round%3 == 0 { // while the operator is down
			a.deleteApp(first+1-first%2, metav1.DeletePropagationBackground)
		}
		m.start()
	}
	a.awaitReady()
	a.g.Eventually(a.problems).WithTimeout(patience).WithPolling(time.Second).Should(gomega.BeEmpty())
	a.t.Attr("summary", fmt.Sprintf("%d apps through %d kills, after %s children of one kind; one of each child, no orphan",
		len(a.all()), len(m.killed), strings.Join(createdAtKill, " ")))
}

func TestKillsDuringBackupsCreateOneJobEachAndDeleteNothingBeforeItCompletes(t *testing.T) {
	t.Parallel()
	a := newApps(t)
	m := newManager(a.fixture)
	m.startReady()
	a.each(0, kills, func(i int) error { return a.createApp(i, served+byJob) })
	a.awaitReady()
	jobs := map[string]string{}
	for _, app := range a.all() {
		jobs[app.Name] = workload.BackupJobName(&app)
	}
	h := a.watchHistory()
	ended := map[string]bool{}
	end := func(name string) {
		if !ended[name] {
			a.endJob(jobs[name])
			ended[name] = true
		}
	}
	// The moments at which the operator is killed.
	moments := []func(name string){
		func(string) {},
		func(name string) { a.awaitHistory(func() bool { return h.countJobs(name) > 0 }) },
		a.awaitBackupRuns,
		end,
		func(name string) { end(name); a.awaitHistory(func() bool { return h.isRemoved(name) }) },
	}
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground}
	for i := range kills {
		a.deleteApp(i, policies[i%2])
		moment := i % len(moments)
		moments[moment](appName(i))
		m.kill()
		if moment == 2 {
			end(appName(i)) // while the operator is down
		}
		m.start()
	}
	for i := range kills {
		end(appName(i))
	}
	a.awaitGone(h)
	created := 0
	for i := range kills {
		h.assertBackedUpFirst(t, appName(i))
		created += h.countJobs(appName(i))
	}
	a.assertReportedOnce()
	a.t.Attr("summary", fmt.Sprintf("%d deletions through %d kills: %d Jobs, nothing deleted before its Job was complete, nothing left", kills, len(m.killed), created))
}

// endJob sets the phase of the Job's pod to Succeeded.
func (a *apps) endJob(name string) {
	a.t.Helper()
	a.g.Eventually(func(g gomega.Gomega) {
		var pods corev1.PodList
		g.Expect(a.Client.List(a.t.Context(), &pods, client.InNamespace(a.namespace), client.MatchingLabels{batchv1.JobNameLabel: name})).To(gomega.Succeed())
		g.Expect(pods.Items).To(gomega.HaveLen(1))
		pods.Items[0].Status.Phase = corev1.PodSucceeded
		g.Expect(a.Client.Status().Update(a.t.Context(), &pods.Items[0])).To(gomega.Succeed())
	}).WithTimeout(patience).Should(gomega.Succeed())
}

func (a *apps) awaitBackupRuns(name string) {
	a.t.Helper()
	a.g.Eventually(func() (*v1alpha1.BackupStatus, error) {
		var app v1alpha1.AppService
		err := a.Client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: name}, &app)
		return app.Status.Backup, err
	}).WithTimeout(patience).Should(gomega.HaveField("Phase", v1alpha1.BackupRunning))
}

func (a *apps) awaitHistory(holds func() bool) {
	a.t.Helper()
	a.g.Eventually(holds).WithTimeout(patience).WithPolling(2 * time.Millisecond).Should(gomega.BeTrue())
}

// awaitGone waits until all AppServices and their children are deleted.
func (a *apps) awaitGone(h *history) {
	a.t.Helper()
	left := func() int { return len(a.all()) + h.countLeft() }
	if err := progress.UntilNoneIsLeft(patience, left); err != nil {
		a.t.Fatalf("not all AppServices and children are deleted: %v", err)
	}
}

// assertReportedOnce checks that one Event reports the end of each backup and each deletion. At
// most one reports the start, which an operator that was killed may have missed.
func (a *apps) assertReportedOnce() {
	a.t.Helper()
	var events eventsv1.EventList
	if err := a.Client.List(a.t.Context(), &events, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	reported := map[string]int{}
	for i := range events.Items {
		e := &events.Items[i]
		reported[e.Reason+" "+e.Regarding.Name]++
	}
	for i := range kills {
		for _, reason := range []string{v1alpha1.ReasonBackupStarted, v1alpha1.ReasonBackupSucceeded, v1alpha1.ReasonCleanupComplete} {
			n := reported[reason+" "+appName(i)]
			if n > 1 || n == 0 && reason != v1alpha1.ReasonBackupStarted {
				a.t.Errorf("got %d Events %s on %s, want 1", n, reason, appName(i))
			}
		}
	}
}

// history contains what watches have shown of Jobs and of the children of apps, by app.
type history struct {
	mu   sync.Mutex
	jobs map[string]map[types.UID]bool
	// completed is the position at which a Job was complete. removed is the position at which
	// the first child was deleted. Positions are resourceVersions, comparable for all kinds.
	completed, removed map[string]uint64
	// left contains the children that exist.
	left map[types.UID]bool
}

// watchHistory watches Jobs and children until the test ends.
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
		begin := kind.list()
		if err := a.Client.List(ctx, begin, client.InNamespace(a.namespace), client.Limit(1)); err != nil {
			a.t.Fatal(err)
		}
		readers.Go(func() {
			h.read(ctx, a.t, begin.GetResourceVersion(), func(position string) (watch.Interface, error) {
				return a.Client.Watch(ctx, kind.list(), client.InNamespace(a.namespace), client.HasLabels{v1alpha1.LabelAppService},
					&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: position}})
			})
		})
	}
	return h
}

// read records the events after a position until the context ends. The API server ends a
// watch now and then.
func (h *history) read(ctx context.Context, t *testing.T, position string, open func(position string) (watch.Interface, error)) {
	for ctx.Err() == nil {
		w, err := open(position)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		for e := range w.ResultChan() {
			if ctx.Err() != nil {
				return
			}
			if o, isObject := e.Object.(client.Object); isObject {
				position = o.GetResourceVersion()
			}
			h.record(t, e)
		}
	}
}

func (h *history) record(t *testing.T, e watch.Event) {
	o, isObject := e.Object.(client.Object)
	if !isObject {
		t.Errorf("got watch event %v with %v, want an object", e.Type, e.Object)
		return
	}
	position, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if job, isJob := o.(*batchv1.Job); isJob {
		h.recordJob(job, position)
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

// recordJob records a Job. The caller holds h.mu.
func (h *history) recordJob(job *batchv1.Job, position uint64) {
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

// first keeps the lowest position of an app.
func first(positions map[string]uint64, o client.Object, position uint64) {
	app := o.GetLabels()[v1alpha1.LabelAppService]
	if known, ok := positions[app]; !ok || position < known {
		positions[app] = position
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

// assertBackedUpFirst checks that an app had one Job, and that no child was deleted before the
// Job was complete.
func (h *history) assertBackedUpFirst(t *testing.T, app string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.jobs[app]); n != 1 {
		t.Errorf("%s had %d Jobs, want 1", app, n)
	}
	completed, removed := h.completed[app], h.removed[app]
	if completed == 0 || removed < completed {
		t.Errorf("%s: Job complete at position %d, first child deleted at %d, want them in this order", app, completed, removed)
	}
}
