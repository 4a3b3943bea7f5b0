package finalizer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/finalizer"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const name = "example.com/backup"

var (
	noon      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	errBackup = errors.New("disk\nfull\x1b")
	errKilled = errors.New("killed")
)

// Cache is a custom resource with a backup.
type Cache struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Backup finalizer.State `json:"backup,omitzero"`
		Size   int             `json:"size,omitempty"`
	} `json:"status,omitzero"`
}

func (c *Cache) DeepCopyObject() runtime.Object {
	to := &Cache{TypeMeta: c.TypeMeta}
	c.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Status.Size = c.Status.Size
	c.Status.Backup.DeepCopyInto(&to.Status.Backup)
	return to
}

// scene is a Cache in a fake API server, and an operator that can be killed.
type scene struct {
	t   *testing.T
	api client.Client
	clk *testclock.FakePassiveClock
	// killed: the operator cannot write the status any more. mute: it cannot emit Events.
	killed, mute bool
	// refuseJob and refuseEvents are the errors of the API server for a new Job and a list of Events.
	refuseJob, refuseEvents error
	// runs counts the calls of the function, and results are what they return. The last one
	// repeats.
	runs    int
	results []error
	during  func()
}

func newScene(t *testing.T, results ...error) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cache"}, &Cache{})
	s := &scene{t: t, clk: testclock.NewFakePassiveClock(noon), results: results}
	s.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&Cache{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if s.killed {
				return errKilled
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*eventsv1.Event); is && s.mute {
				return errKilled
			}
			if _, is := o.(*batchv1.Job); is && s.refuseJob != nil {
				return s.refuseJob
			}
			o.SetCreationTimestamp(metav1.NewTime(s.clk.Now()))
			return c.Create(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*eventsv1.EventList); is && s.refuseEvents != nil {
				return s.refuseEvents
			}
			return c.List(ctx, list, opts...)
		},
	}).WithIndex(&eventsv1.Event{}, "regarding.uid", func(o client.Object) []string {
		return []string{string(o.(*eventsv1.Event).Regarding.UID)}
	}).Build()
	if err := s.api.Create(t.Context(), &Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "it"}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns the Cache; nil if it was deleted.
func (s *scene) read() *Cache {
	s.t.Helper()
	c := &Cache{}
	err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "team", Name: "it"}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// delete deletes the Cache, to which Reconcile has added the finalizer.
func (s *scene) delete() {
	s.t.Helper()
	s.reconcile(finalizer.Policy{})
	if err := s.api.Delete(s.t.Context(), s.read()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) run(context.Context) error {
	s.runs++
	if s.during != nil {
		s.during()
	}
	if len(s.results) == 0 {
		return nil
	}
	return s.results[min(s.runs, len(s.results))-1]
}

// operator returns a Finalizer as a new process has it.
func (s *scene) operator() *finalizer.Finalizer {
	return finalizer.New(s.api, s.clk, events.NewRecorder(s.api, s.clk, "cache-controller"), name, "Backup")
}

func (s *scene) reconcileAs(c *Cache, policy finalizer.Policy) (step.Result, error) {
	return s.operator().Reconcile(s.t.Context(), c, &c.Status.Backup, policy, s.run)
}

// events returns the reasons and notes of all Events, in the order of their times.
func (s *scene) events() []string {
	s.t.Helper()
	list := &eventsv1.EventList{}
	if err := s.api.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Note)
	}
	return all
}

func (s *scene) reconcile(policy finalizer.Policy) step.Result {
	s.t.Helper()
	result, err := s.reconcileAs(s.read(), policy)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// expect compares the number of runs and the stored state; "gone" means that there is no object.
func (s *scene) expect(runs int, want string) {
	s.t.Helper()
	got := "gone"
	if c := s.read(); c != nil {
		b := c.Status.Backup
		got = strings.TrimSpace(fmt.Sprintf("%s %d %s", b.Phase, b.Attempts, b.Message))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Error(diff)
	}
	if s.runs != runs {
		s.t.Errorf("it ran %d times, want %d", s.runs, runs)
	}
}

func (s *scene) pass(d time.Duration) { s.clk.SetTime(s.clk.Now().Add(d)) }

func TestNothingRunsBeforeTheDeletion(t *testing.T) {
	s := newScene(t)
	for range 2 {
		if result := s.reconcile(finalizer.Policy{}); result != (step.Result{}) {
			t.Errorf("%+v", result)
		}
	}
	s.expect(0, "0")
	if diff := cmp.Diff([]string{name}, s.read().Finalizers); diff != "" {
		t.Error(diff)
	}
}

func TestObjectIsDeletedAfterASuccess(t *testing.T) {
	s := newScene(t)
	s.delete()
	if result := s.reconcile(finalizer.Policy{}); result != (step.Result{Stop: true}) {
		t.Errorf("%+v", result)
	}
	s.expect(1, "gone")
}

func TestFinalizerOfAnotherDoesNotRunItAgain(t *testing.T) {
	s := newScene(t)
	s.delete()
	c := s.read()
	c.Finalizers = append(c.Finalizers, "example.com/other")
	if err := s.api.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if result := s.reconcile(finalizer.Policy{}); result != (step.Result{Stop: true}) {
			t.Errorf("%+v", result)
		}
	}
	s.expect(1, "Succeeded 1")
}

func TestBlockRetriesUntilASuccess(t *testing.T) {
	s := newScene(t, errBackup, errBackup, errBackup, errBackup, errBackup, errBackup, errBackup, errBackup, nil)
	s.delete()
	for i, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
		pause := time.Duration(seconds) * time.Second
		if result := s.reconcile(finalizer.Policy{}); result != (step.Result{Stop: true, RequeueAfter: pause}) {
			t.Errorf("attempt %d: %+v, want %s", i+1, result, pause)
		}
		s.expect(i+1, fmt.Sprintf("Failed %d disk full", i+1))
		s.pass(pause - time.Second)
		if result := s.reconcile(finalizer.Policy{}); result.RequeueAfter != time.Second {
			t.Errorf("before its time: %+v", result)
		}
		s.expect(i+1, fmt.Sprintf("Failed %d disk full", i+1))
		s.pass(time.Second)
	}
	s.reconcile(finalizer.Policy{})
	s.expect(9, "gone")
}

func TestAbandonDeletesAfterTheLastAttempt(t *testing.T) {
	s := newScene(t, errBackup)
	s.delete()
	policy := finalizer.Policy{OnFailure: finalizer.Abandon, MaxAttempts: 2}
	s.reconcile(policy)
	s.expect(1, "Failed 1 disk full")
	s.pass(time.Minute)
	s.reconcile(policy)
	s.expect(2, "gone")
}

func TestCleanUpRunsUntilItSucceedsBeforeTheObjectIsGone(t *testing.T) {
	for what, result := range map[string]error{"Succeeded 1": nil, "Abandoned 1 disk full": errBackup} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, result)
			s.delete()
			calls := 0
			policy := finalizer.Policy{OnFailure: finalizer.Abandon, MaxAttempts: 1, CleanUp: func(context.Context) error {
				if calls++; calls == 1 {
					return errKilled
				}
				return nil
			}}
			if _, err := s.reconcileAs(s.read(), policy); !errors.Is(err, errKilled) {
				t.Errorf("error %v", err)
			}
			s.expect(1, what)
			s.reconcile(policy)
			s.expect(1, "gone")
			if calls != 2 {
				t.Errorf("it was called %d times", calls)
			}
		})
	}
}

func TestCleanUpDoesNotRunWhileTheDeletionWaits(t *testing.T) {
	s := newScene(t, finalizer.ErrPending, errBackup)
	policy := finalizer.Policy{CleanUp: func(context.Context) error { t.Error("it was called"); return nil }}
	s.reconcile(policy)
	s.delete()
	s.reconcile(policy)
	s.reconcile(policy)
	s.expect(2, "Failed 1 disk full")
}

func TestSkipDeletesWithoutAnAttempt(t *testing.T) {
	s := newScene(t, errBackup)
	s.delete()
	s.reconcile(finalizer.Policy{Skip: "the namespace is being deleted"})
	s.expect(0, "gone")
}

// The operator is killed after the attempt began: its result cannot be written.
func TestUnknownResultCountsAsAnAttempt(t *testing.T) {
	const unknown = "the operator ended during the attempt, whose result is unknown"
	for what, tc := range map[string]struct {
		policy finalizer.Policy
		runs   int
	}{
		"block":             {finalizer.Policy{}, 2},
		"abandon":           {finalizer.Policy{OnFailure: finalizer.Abandon, MaxAttempts: 2}, 2},
		"abandon after one": {finalizer.Policy{OnFailure: finalizer.Abandon, MaxAttempts: 1}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t)
			s.delete()
			s.during = func() { s.killed = true }
			if _, err := s.reconcileAs(s.read(), tc.policy); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			s.expect(1, "Running 1")
			s.killed, s.during = false, nil
			s.reconcile(tc.policy)
			s.expect(tc.runs, "gone")
		})
	}
	t.Run("the reason is kept", func(t *testing.T) {
		s := newScene(t)
		s.delete()
		s.during = func() { s.killed = true }
		for range 2 {
			s.killed = false
			_, _ = s.reconcileAs(s.read(), finalizer.Policy{})
		}
		s.expect(2, "Running 2 "+unknown)
	})
}

func TestNothingRunsIfTheAttemptCannotBeCounted(t *testing.T) {
	s := newScene(t)
	s.delete()
	s.killed = true
	if _, err := s.reconcileAs(s.read(), finalizer.Policy{}); !errors.Is(err, errKilled) {
		t.Errorf("error %v", err)
	}
	s.expect(0, "0")
}

func TestLateCacheCausesNoSecondAttempt(t *testing.T) {
	s := newScene(t, errBackup)
	s.delete()
	old := s.read()
	s.reconcile(finalizer.Policy{})
	if _, err := s.reconcileAs(old, finalizer.Policy{}); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	s.expect(1, "Failed 1 disk full")
}

func TestChangeDuringTheAttemptCausesNoSecondOne(t *testing.T) {
	s := newScene(t, errBackup)
	s.delete()
	s.during = func() {
		c := s.read()
		c.Status.Size = 7
		if err := s.api.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	s.reconcile(finalizer.Policy{})
	s.expect(1, "Failed 1 disk full")
	if got := s.read().Status.Size; got != 7 {
		t.Errorf("the change of another client was lost: size %d", got)
	}
}

func TestPendingWorkIsOneAttempt(t *testing.T) {
	s := newScene(t, finalizer.ErrPending, fmt.Errorf("job: %w", finalizer.ErrPending), nil)
	s.delete()
	for i := range 2 {
		if result := s.reconcile(finalizer.Policy{}); result != (step.Result{Stop: true, RequeueAfter: 10 * time.Second}) {
			t.Errorf("%+v", result)
		}
		s.expect(i+1, "Pending 1")
	}
	s.reconcile(finalizer.Policy{})
	s.expect(3, "gone")
}

func TestEachProblemIsOneEvent(t *testing.T) {
	noClaim := finalizer.PendingError("claim b does not exist")
	s := newScene(t, finalizer.ErrPending, noClaim, noClaim, errBackup, errBackup, nil)
	s.delete()
	policy := finalizer.Policy{OnFailure: finalizer.Abandon, MaxAttempts: 2}
	s.reconcile(policy)
	s.expect(1, "Pending 1")
	for i := range 2 {
		s.pass(10 * time.Second)
		s.reconcile(policy)
		s.expect(i+2, "Pending 1 claim b does not exist")
	}
	s.reconcile(policy)
	s.reconcile(policy)
	s.expect(4, "Failed 1 disk full")
	s.pass(time.Minute)
	s.mute = true
	if _, err := s.reconcileAs(s.read(), policy); !errors.Is(err, errKilled) {
		t.Errorf("error %v", err)
	}
	s.expect(5, "Abandoned 2 disk full")
	s.mute = false
	s.reconcile(policy)
	s.expect(5, "gone")
	if diff := cmp.Diff([]string{
		"BackupPending: the deletion waits: claim b does not exist",
		"BackupFailed: the deletion waits for another attempt: disk full",
		"BackupAbandoned: the deletion goes on without it: disk full",
	}, s.events()); diff != "" {
		t.Error(diff)
	}
}

func TestAttemptsAreLimitedInTime(t *testing.T) {
	s := newScene(t)
	s.delete()
	c := s.read()
	_, err := s.operator().Reconcile(t.Context(), c, &c.Status.Backup, finalizer.Policy{Timeout: time.Nanosecond}, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	s.expect(0, "Failed 1 context deadline exceeded")
}

func TestEndOfTheOperatorDuringAnAttempt(t *testing.T) {
	for what, tc := range map[string]struct {
		result error
		want   string
	}{
		"a failure is unknown": {errBackup, "Running 1"},
		"a success is written": {nil, "gone"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t)
			s.delete()
			ctx, stop := context.WithCancel(t.Context())
			c := s.read()
			_, _ = s.operator().Reconcile(ctx, c, &c.Status.Backup, finalizer.Policy{}, func(context.Context) error {
				stop()
				return tc.result
			})
			s.expect(0, tc.want)
		})
	}
}

func TestStateOfARestoredObjectDoesNotCount(t *testing.T) {
	s := newScene(t)
	c := s.read()
	c.Status.Backup = finalizer.State{Phase: finalizer.Succeeded, Attempts: 1, CompletedAt: new(metav1.NewTime(noon))}
	if err := s.api.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reconcileAs(c, finalizer.Policy{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(finalizer.State{}, c.Status.Backup); diff != "" {
		t.Error(diff)
	}
}

// The garbage collector writes an object in another version of the kind, which can lack fields.
func TestAStateWithoutItsTimesBeginsAgain(t *testing.T) {
	for _, phase := range []finalizer.Phase{finalizer.Running, finalizer.Pending, finalizer.Failed, finalizer.Succeeded, finalizer.Abandoned} {
		t.Run(string(phase), func(t *testing.T) {
			s := newScene(t, finalizer.PendingError("a claim does not exist"), nil)
			s.delete()
			c := s.read()
			c.Status.Backup = finalizer.State{Phase: phase, Message: "text"}
			if err := s.api.Status().Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			s.reconcile(finalizer.Policy{})
			s.expect(1, "Pending 1 a claim does not exist")
			s.reconcile(finalizer.Policy{})
			s.expect(2, "gone")
		})
	}
}
