package jupyter

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// resume takes the mark of culling off a notebook that was resumed.
func (r *Reconciler) resume(ctx context.Context, n *notebook) error {
	if _, culled := n.Annotations[v1alpha1.AnnotationCulledAt]; !culled || n.Spec.Suspend {
		return nil
	}
	before := n.DeepCopy()
	delete(n.Annotations, v1alpha1.AnnotationCulledAt)
	if err := r.patch(ctx, before, n.Jupyter); err != nil {
		return err
	}
	n.before = n.DeepCopy()
	return nil
}

// patch writes what differs, unless somebody else wrote meanwhile.
func (r *Reconciler) patch(ctx context.Context, before, after *v1alpha1.Jupyter) error {
	return r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// ask has a notebook that runs asked whether it is used, if it is to be culled.
func (r *Reconciler) ask(ctx context.Context, n *notebook) error {
	if n.Spec.Culling == nil || n.runningSince().IsZero() || n.pod.Status.PodIP == "" {
		r.prober.forget(n.name)
		return nil
	}
	who := whom{
		pod:     n.pod.UID,
		address: net.JoinHostPort(n.pod.Status.PodIP, strconv.Itoa(workload.NotebookPort)),
		token:   workload.TokenRef(n.Jupyter),
		rhythm:  culling.SettingsOf(*n.Spec.Culling),
	}
	if r.prober.asks(n.name, who) {
		return nil
	}
	look := r.tokens.look(n.name)
	token, err := r.readToken(ctx, n, who.token)
	if err != nil {
		return err
	}
	if r.tokens.look(n.name) != look {
		return nil // it was changed meanwhile; whoever said so has the notebook looked at again
	}
	if token == "" { // ensureToken says so
		r.prober.forget(n.name)
		return nil
	}
	r.prober.ask(n.name, who, token)
	return nil
}

// readToken reads the notebook's token from the API server; it is empty if there is
// none. One that was not made for the notebook is sent to it only if the notebook
// names it.
func (r *Reconciler) readToken(ctx context.Context, n *notebook, ref v1alpha1.SecretKeyReference) (string, error) {
	var secret corev1.Secret
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: n.Namespace, Name: ref.Name}, &secret)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if n.Spec.Auth.TokenSecretRef == nil && !metav1.IsControlledBy(&secret, n.Jupyter) {
		return "", nil
	}
	return string(secret.Data[ref.Key]), nil
}

// runningSince is when the notebook's server was started; zero if it does not run.
func (n *notebook) runningSince() time.Time {
	if n.Spec.Suspend || n.pod == nil || !n.pod.DeletionTimestamp.IsZero() || n.pod.Status.Phase != corev1.PodRunning {
		return time.Time{}
	}
	if !isRunning(n.pod) {
		return time.Time{}
	}
	return serverOf(n.pod).State.Running.StartedAt.Time
}

// setUse says in memory whether the notebook is used, and decides what follows.
func (r *Reconciler) setUse(n *notebook) {
	in := culling.Input{Remembered: culling.MemoryOf(&n.Status), Now: r.Clock.Now()}
	if n.Spec.Culling == nil {
		in.Remembered = culling.Memory{}
	} else {
		in.Settings = culling.SettingsOf(*n.Spec.Culling)
		in.Started, in.Culled = n.runningSince(), n.isCulled()
		in.Record = r.prober.record(n.name)
	}
	n.use = culling.Decide(in)
	n.setCondition(r, v1alpha1.ConditionServerResponding, n.use.Responding)
	n.setCondition(r, v1alpha1.ConditionIdle, n.use.Idle)
	n.Status.LastActivityTime, n.Status.CullTime = inSeconds(n.use.LastActivity), inSeconds(n.use.CullTime)
	n.Status.LastProbe = n.use.Probe
	in.Remembered = culling.MemoryOf(&n.Status)
	if r.prober.decided(n.name, in) {
		n.RequeueAfter(time.Second)
	}
}

func (n *notebook) setCondition(r *Reconciler, kind string, c culling.Condition) {
	condition.Set(&n.Status.Conditions, n.Condition(kind, c.Status, c.Reason, c.Message), r.Clock)
}

// isCulled says whether it is culling that the notebook is suspended by.
func (n *notebook) isCulled() bool {
	return n.Spec.Suspend && n.Annotations[v1alpha1.AnnotationCulledAt] != ""
}

// inSeconds is a time as the API server keeps it: otherwise it would differ from
// itself when it is read back.
func inSeconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}

// cull warns of culling, culls, and tells that it has. What it acts upon has been
// written to the status.
func (r *Reconciler) cull(ctx context.Context, n *notebook) error {
	if n.isCulled() {
		return r.tellCulled(ctx, n)
	}
	idle := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionIdle)
	if n.Status.CullTime == nil || idle == nil || idle.Status != metav1.ConditionTrue {
		return nil
	}
	since := idle.LastTransitionTime.Time
	if err := r.Recorder.Emit(ctx, n.Jupyter, idleWarning(n, since)); err != nil {
		return err
	}
	n.RequeueAfter(r.Recorder.NextRepeat(since))
	if !n.use.Cull {
		return nil
	}
	culled := n.DeepCopy()
	culled.Spec.Suspend = true
	if culled.Annotations == nil {
		culled.Annotations = map[string]string{}
	}
	culled.Annotations[v1alpha1.AnnotationCulledAt] = r.Clock.Now().UTC().Format(time.RFC3339)
	return r.patch(ctx, n.Jupyter, culled)
}

// tellCulled tells of it for as long as it is news, in case that the operator was
// restarted in between.
func (r *Reconciler) tellCulled(ctx context.Context, n *notebook) error {
	at, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationCulledAt])
	if age := r.Clock.Since(at); err != nil || age < 0 || age > news {
		return nil //nolint:nilerr // somebody else wrote it
	}
	return r.Recorder.Emit(ctx, n.Jupyter, wasCulled(n, at))
}

func idleWarning(n *notebook, since time.Time) events.Event {
	at := n.Status.CullTime.Time
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonIdleWarning, Action: "Warn",
		Note: fmt.Sprintf("nobody uses the notebook: it is stopped at %s unless somebody does; its claim stays",
			at.UTC().Format(time.RFC3339)),
		Identity: at.UTC().Format(time.RFC3339), Since: since,
	}
}

func wasCulled(n *notebook, at time.Time) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonCulled, Action: "Suspend",
		Note:     "nobody used the notebook, so it was stopped; its claim stays; set spec.suspend to false to start it again",
		Identity: string(n.UID), Since: at,
	}
}
