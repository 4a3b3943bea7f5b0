package finalizer

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const (
	// minPause and maxPause limit the pauses between attempts. A pause is twice the last one.
	minPause = 10 * time.Second
	maxPause = 10 * time.Minute
	// pendingPause is the pause before the function of a pending attempt is called again.
	pendingPause = 10 * time.Second

	// writeTimeout limits a write of the state.
	writeTimeout = 10 * time.Second

	defaultAttempts = 3
	defaultTimeout  = time.Minute

	// maxMessage is the limit of State.Message, in bytes.
	maxMessage = 1024
)

// PendingError is returned by a function whose work goes on elsewhere, for example in a Job. The
// attempt continues, and the function is called again after ten seconds, or in the next
// reconcile. The text says why the work does not go on. It is reported, and can be empty.
type PendingError string

func (e PendingError) Error() string { return "the work has not ended yet: " + string(e) }

// ErrPending is returned while the work goes on.
const ErrPending = PendingError("")

// SkipError is returned by a function whose work cannot be done any more, for example because the
// namespace is being deleted. The text says why. Abandon goes on with the deletion at once. For Block,
// it is a failure.
type SkipError string

func (e SkipError) Error() string { return string(e) }

// OnFailure is what happens if attempts fail.
type OnFailure string

// Values of OnFailure. The default is Block.
const (
	// Block: the deletion waits until an attempt succeeds.
	Block OnFailure = "Block"
	// Abandon: the object is deleted after Policy.MaxAttempts.
	Abandon OnFailure = "Abandon"
)

// Policy controls attempts. The zero Policy blocks the deletion.
type Policy struct {
	OnFailure OnFailure
	// MaxAttempts is the number of attempts after which Abandon gives up. Default: 3.
	MaxAttempts int32
	// Timeout limits each call of the function, by its context. Default: one minute.
	Timeout time.Duration
	// Skip abandons the work now if it is not empty. It is the reason, for example that the
	// namespace is being deleted, or that a user has set an annotation.
	Skip string
	// CleanUp is called when the work has succeeded or was abandoned, before the finalizer is
	// removed. It deletes children that have no owner reference. Its error is that of Reconcile, and
	// it is called again, so make it idempotent. It can be nil.
	CleanUp func(ctx context.Context) error
}

// Phase is the progress of the work.
type Phase string

// Values of Phase. It is empty until the object is deleted.
const (
	// Running: an attempt began. If no operator runs, its result is unknown.
	Running Phase = "Running"
	// Pending: the function returned ErrPending.
	Pending Phase = "Pending"
	// Failed: the last attempt failed, and there will be another.
	Failed Phase = "Failed"
	// Succeeded: the object is deleted.
	Succeeded Phase = "Succeeded"
	// Abandoned: the object is deleted although the work failed or was skipped.
	Abandoned Phase = "Abandoned"
)

// State is the progress of the work, in the status of the object.
type State struct {
	// phase is Running, Pending, Failed, Succeeded, or Abandoned.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// attempts is the number of attempts that have begun.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// message says what a pending attempt waits for, why the last attempt failed, or why the work
	// was skipped. It is one line of at most 1,024 bytes.
	// +optional
	Message string `json:"message,omitempty"`
	// startedAt is when the first attempt began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// nextAttemptAt is when the next attempt begins.
	// +optional
	NextAttemptAt *metav1.Time `json:"nextAttemptAt,omitempty"`
	// completedAt is when the work succeeded or was abandoned.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// DeepCopyInto copies the state.
func (s *State) DeepCopyInto(to *State) {
	*to = *s
	to.StartedAt, to.NextAttemptAt, to.CompletedAt = s.StartedAt.DeepCopy(), s.NextAttemptAt.DeepCopy(), s.CompletedAt.DeepCopy()
}

// DeepCopy returns a copy.
func (s *State) DeepCopy() *State {
	to := new(State)
	s.DeepCopyInto(to)
	return to
}

// Finalizer runs a function before objects are deleted. It is safe for concurrent use for
// different objects.
type Finalizer struct {
	client     client.Client
	clock      clock.PassiveClock
	events     *events.Recorder
	name, work string
}

// New returns a Finalizer. name is the finalizer that it adds to objects, such as
// example.com/backup. work is what it does, such as Backup: the reasons of its Events are
// BackupPending, BackupFailed and BackupAbandoned.
func New(c client.Client, clk clock.PassiveClock, recorder *events.Recorder, name, work string) *Finalizer {
	return &Finalizer{client: c, clock: clk, events: recorder, name: name, work: work}
}

// Reconcile adds the finalizer to an object. When the object is being deleted, it calls run
// as the policy demands. It writes the state, reports it as an Event, and finally removes the
// finalizer.
//
// object must be as it was read: changes in memory can be lost. state is a field of its status,
// and not behind a pointer. Stop in the result means that the object is being deleted. Then
// leave its children as they are. An error is one of the API server, for example a conflict. A
// failure of run is not an error: it is in the state.
func (f *Finalizer) Reconcile(ctx context.Context, object client.Object, state *State, policy Policy, run func(ctx context.Context) error) (step.Result, error) {
	if object.GetDeletionTimestamp().IsZero() {
		err := f.add(ctx, object)
		*state = State{} // for example of an object that was restored from a backup
		return step.Result{}, err
	}
	if !controllerutil.ContainsFinalizer(object, f.name) {
		return step.Result{Stop: true}, nil
	}
	if err := f.progress(ctx, object, state, policy.withDefaults(), run); err != nil {
		return step.Result{Stop: true}, err
	}
	if err := f.report(ctx, object, state); err != nil {
		return step.Result{Stop: true}, err
	}
	if state.CompletedAt != nil {
		if policy.CleanUp != nil {
			if err := policy.CleanUp(ctx); err != nil {
				return step.Result{Stop: true}, err
			}
		}
		return step.Result{Stop: true}, f.remove(ctx, object)
	}
	return step.Result{Stop: true, RequeueAfter: f.pause(state)}, nil
}

func (p Policy) withDefaults() Policy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = defaultAttempts
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	return p
}

// progress makes an attempt if one is due, and writes the state.
func (f *Finalizer) progress(ctx context.Context, object client.Object, state *State, policy Policy, run func(ctx context.Context) error) error {
	if state.CompletedAt != nil {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	if state.isIncomplete() {
		*state = State{}
	}
	if state.Phase == Running {
		state.Phase, state.Message = Failed, "the operator ended during the attempt, whose result is unknown"
	}
	switch {
	case policy.Skip != "":
		f.complete(state, Abandoned, policy.Skip)
		return f.writeFresh(ctx, object, before)
	case policy.exhausted(state):
		f.complete(state, Abandoned, state.Message)
		return f.writeFresh(ctx, object, before)
	case state.Phase == Failed && state.NextAttemptAt != nil && f.clock.Now().Before(state.NextAttemptAt.Time):
		return nil
	case state.Phase != Pending:
		f.begin(state)
		if err := f.writeFresh(ctx, object, before); err != nil {
			return err
		}
	}
	return f.attempt(ctx, object, state, policy, run)
}

// isIncomplete reports whether another client has removed a time. The API server does so if a client
// writes the object in a version of the kind that does not contain the state. The attempts then begin
// again.
func (s *State) isIncomplete() bool {
	return s.CompletedAt == nil && (s.StartedAt == nil || s.Phase == Succeeded || s.Phase == Abandoned)
}

// attempt calls the function and writes its result.
func (f *Finalizer) attempt(ctx context.Context, object client.Object, state *State, policy Policy, run func(ctx context.Context) error) error {
	before := object.DeepCopyObject().(client.Object)
	limited, cancel := context.WithTimeout(ctx, policy.Timeout)
	defer cancel()
	err := run(limited)
	pending, isPending := errors.AsType[PendingError](err)
	skip, isSkipped := errors.AsType[SkipError](err)
	switch {
	case err == nil:
		f.complete(state, Succeeded, "")
	case ctx.Err() != nil: // the operator stops, so the result is unknown
		return ctx.Err()
	case isPending && state.Phase == Pending && state.Message == line(string(pending)):
		return nil
	case isSkipped && policy.OnFailure == Abandon:
		f.complete(state, Abandoned, string(skip))
	case isPending:
		state.Phase, state.Message = Pending, line(string(pending))
	default:
		f.fail(state, policy, err.Error())
	}
	return f.write(ctx, object, before)
}

// report emits an Event about the state. A new operator emits it again, which has no effect.
func (f *Finalizer) report(ctx context.Context, object client.Object, state *State) error {
	e := events.Event{Type: corev1.EventTypeWarning, Reason: f.work + string(state.Phase), Action: "Delete"}
	switch {
	case state.Phase == Pending && state.Message != "":
		e.Note, e.Since = "the deletion waits: "+state.Message, state.StartedAt.Time
	case state.Phase == Failed:
		e.Note, e.Since = "the deletion waits for another attempt: "+state.Message, state.StartedAt.Time
	case state.Phase == Abandoned:
		e.Note, e.Since = "the deletion goes on without it: "+state.Message, state.CompletedAt.Time
	default:
		return nil
	}
	return f.events.Emit(ctx, object, e)
}

// exhausted reports whether the last attempt has failed.
func (p Policy) exhausted(state *State) bool {
	return p.OnFailure == Abandon && state.Phase == Failed && state.Attempts >= p.MaxAttempts
}

// now returns the time as a status contains it.
func (f *Finalizer) now() *metav1.Time {
	return new(metav1.NewTime(f.clock.Now().Truncate(time.Second)))
}

func (f *Finalizer) begin(state *State) {
	if state.StartedAt == nil {
		state.StartedAt = f.now()
	}
	state.Phase, state.NextAttemptAt = Running, nil
	state.Attempts++
}

func (f *Finalizer) fail(state *State, policy Policy, message string) {
	state.Phase, state.Message = Failed, line(message)
	if policy.exhausted(state) {
		f.complete(state, Abandoned, message)
		return
	}
	pause := min(minPause<<min(max(state.Attempts-1, 0), 6), maxPause)
	state.NextAttemptAt = new(metav1.NewTime(f.now().Add(pause)))
}

func (f *Finalizer) complete(state *State, phase Phase, message string) {
	state.Phase, state.Message, state.NextAttemptAt, state.CompletedAt = phase, line(message), nil, f.now()
}

func line(s string) string { return plaintext.Cut(plaintext.Line(s), maxMessage) }

// pause returns when to reconcile again.
func (f *Finalizer) pause(state *State) time.Duration {
	if state.NextAttemptAt == nil {
		return pendingPause
	}
	return max(state.NextAttemptAt.Sub(f.clock.Now()), time.Second)
}

// writeFresh writes the state if the object was the newest. Otherwise it returns a conflict: a
// late cache can show an attempt that has succeeded as one that runs.
func (f *Finalizer) writeFresh(ctx context.Context, object, before client.Object) error {
	return f.client.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// write writes the result of an attempt. Another attempt must not be the consequence of a change
// by another client in the meantime, or of the end of ctx.
func (f *Finalizer) write(ctx context.Context, object, before client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return f.client.Status().Patch(ctx, object, client.MergeFrom(before))
}

func (f *Finalizer) add(ctx context.Context, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(object, f.name) {
		return nil
	}
	return f.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (f *Finalizer) remove(ctx context.Context, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, f.name)
	err := f.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}
