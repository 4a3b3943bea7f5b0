package jupyter

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/probe"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// resume removes the mark of culling from a notebook that was started again.
func (r *Reconciler) resume(ctx context.Context, n *notebook) (step.Result, error) {
	if _, culled := n.jupyter.Annotations[v1alpha1.AnnotationCulledAt]; !culled || n.suspend {
		return step.Result{}, nil
	}
	delete(n.jupyter.Annotations, v1alpha1.AnnotationCulledAt)
	delete(n.jupyter.Annotations, v1alpha1.AnnotationCulledReason)
	if err := r.patch(ctx, n.before, n.jupyter); err != nil {
		return step.Result{}, err
	}
	n.before = n.jupyter.DeepCopy()
	return step.Result{}, nil
}

// patch writes the differences. It fails if another client has changed the object.
func (r *Reconciler) patch(ctx context.Context, before, after *v1alpha1.Jupyter) error {
	return r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// probe registers the server of a running notebook with the pool if the notebook has
// culling.
func (r *Reconciler) probe(ctx context.Context, n *notebook) (step.Result, error) {
	if n.culling == nil || n.running.IsZero() || n.pod.Status.PodIP == "" {
		r.prober.forget(n.name)
		return step.Result{}, nil
	}
	isJupyter := workload.IsJupyter(n.jupyter)
	t := target{
		pod:      n.pod.UID,
		node:     n.pod.Spec.NodeName,
		address:  net.JoinHostPort(n.pod.Status.PodIP, strconv.Itoa(int(workload.ServerPort(n.pod)))),
		settings: *n.culling,
	}
	if isJupyter {
		t.prefix, t.token = workload.NotebookPrefix(n.pod), workload.TokenRef(n.jupyter)
	} else {
		t.activityPath = n.jupyter.Spec.Server.ActivityPath
	}
	if r.prober.probes(n.name, t) {
		return step.Result{}, nil
	}
	if !isJupyter {
		r.prober.put(n.name, t, "")
		return step.Result{}, nil
	}
	revision := r.tokens.revision(n.name)
	token, err := r.readToken(ctx, n, t.token)
	switch {
	case err != nil:
		return step.Result{}, err
	case r.tokens.revision(n.name) != revision: // the change has enqueued the notebook
		return step.Result{}, nil
	case token == "": // ensureToken reports it
		r.prober.forget(n.name)
	default:
		r.prober.put(n.name, t, token)
	}
	return step.Result{}, nil
}

// settingsOf reads spec.culling; nil if it is not set. An HTTP server reports only when it was last used.
func settingsOf(j *v1alpha1.Jupyter) *culling.Settings {
	if j.Spec.Culling == nil {
		return nil
	}
	settings := culling.SettingsOf(*j.Spec.Culling)
	if !workload.IsJupyter(j) {
		settings.Activity = v1alpha1.CullingActivityServer
	}
	return &settings
}

// readToken reads the token from the API server; it is empty if there is none. A Secret
// that was not created for the notebook is used only if the notebook names it.
func (r *Reconciler) readToken(ctx context.Context, n *notebook, ref v1alpha1.TokenSecretReference) (string, error) {
	var secret corev1.Secret
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: n.name.Namespace, Name: ref.Name}, &secret)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if n.jupyter.Spec.Auth.TokenSecretRef == nil && !n.owns(&secret) {
		return "", nil
	}
	return string(secret.Data[ref.Key]), nil
}

// setUse sets in memory whether the notebook is used, and decides what follows. It
// returns when to reconcile again if a probe has ended meanwhile.
func (r *Reconciler) setUse(n *notebook) time.Duration {
	s := &n.jupyter.Status
	in := culling.Input{Now: r.Clock.Now(), Disabled: n.culling == nil}
	if !in.Disabled {
		in.Remembered, in.Settings = culling.MemoryOf(s), *n.culling
		in.Started, in.Culled = n.running, n.culled != ""
		in.Record = r.prober.record(n.name)
	}
	n.use = culling.Decide(in)
	r.Writer.SetCondition(n.jupyter, conditionOf(v1alpha1.ConditionServerResponding, n.use.Responding))
	r.Writer.SetCondition(n.jupyter, conditionOf(v1alpha1.ConditionIdle, n.use.Idle))
	s.LastActivityTime, s.CullTime = inSeconds(n.use.LastActivity), inSeconds(n.use.CullTime)
	s.IdleSinceTime = nil
	if n.use.Idle.Status != metav1.ConditionUnknown {
		s.IdleSinceTime = s.LastActivityTime
	}
	s.LastProbe = n.use.Probe
	in.Remembered = culling.MemoryOf(s)
	if r.prober.decided(n.name, in) {
		return time.Second
	}
	return 0
}

// setFailing decides when the notebook is stopped because it fails. It returns when to reconcile again.
func (r *Reconciler) setFailing(n *notebook) time.Duration {
	s := &n.jupyter.Status
	var in culling.FailingInput
	if n.culling != nil && !n.suspend {
		in = culling.FailingInput{
			Settings: *n.culling, Since: status.FailingSince(n.jupyter),
			Failing: s.State == v1alpha1.StateFailing, Now: r.Clock.Now(),
		}
		if s.FailingCullTime != nil {
			in.Announced = s.FailingCullTime.Time
		}
	}
	n.failing = culling.DecideFailing(in)
	s.FailingCullTime = inSeconds(n.failing.CullTime)
	return n.failing.Next
}

func conditionOf(kind string, c culling.Condition) metav1.Condition {
	return ofType(kind)(c.Status, c.Reason, c.Message)
}

// inSeconds is a time with the precision of the API server, so that it equals itself
// when it is read.
func inSeconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}

// cull warns first, later stops the notebook, and reports both. The status that it relies
// on is written. It returns when to repeat the warning.
func (r *Reconciler) cull(ctx context.Context, n *notebook) (time.Duration, error) {
	if n.culled != "" {
		return 0, r.emitCulled(ctx, n.jupyter, n.culled)
	}
	if n.jupyter.Status.FailingCullTime != nil {
		if err := r.Writer.Emit(ctx, n.jupyter, failingWarning(n.jupyter)); err != nil {
			return 0, err
		}
	}
	if n.failing.Cull {
		return 0, r.stop(ctx, n.jupyter, v1alpha1.ReasonCulledFailing)
	}
	idle := meta.FindStatusCondition(n.jupyter.Status.Conditions, v1alpha1.ConditionIdle)
	if n.jupyter.Status.CullTime == nil || idle == nil || idle.Status != metav1.ConditionTrue {
		return 0, nil
	}
	since := idle.LastTransitionTime.Time
	if err := r.Writer.Emit(ctx, n.jupyter, idleWarning(n, since)); err != nil {
		return 0, err
	}
	if !n.use.Cull {
		return r.Writer.NextRepeat(since), nil
	}
	return 0, r.stop(ctx, n.jupyter, "")
}

// stop suspends a notebook. The reason is empty if it is idle.
func (r *Reconciler) stop(ctx context.Context, j *v1alpha1.Jupyter, reason string) error {
	culled := j.DeepCopy()
	culled.Spec.Suspend = true
	if culled.Annotations == nil {
		culled.Annotations = map[string]string{}
	}
	culled.Annotations[v1alpha1.AnnotationCulledAt] = r.Clock.Now().UTC().Format(time.RFC3339)
	if delete(culled.Annotations, v1alpha1.AnnotationCulledReason); reason != "" {
		culled.Annotations[v1alpha1.AnnotationCulledReason] = reason
	}
	return r.patch(ctx, j, culled)
}

// culledReason is the reason why culling has suspended a notebook; empty if it has not.
func culledReason(j *v1alpha1.Jupyter) string {
	switch {
	case !j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationCulledAt] == "":
		return ""
	case j.Annotations[v1alpha1.AnnotationCulledReason] == v1alpha1.ReasonCulledFailing:
		return v1alpha1.ReasonCulledFailing
	}
	return v1alpha1.ReasonCulled
}

// emitCulled reports a recent culling.
func (r *Reconciler) emitCulled(ctx context.Context, j *v1alpha1.Jupyter, reason string) error {
	at, err := time.Parse(time.RFC3339, j.Annotations[v1alpha1.AnnotationCulledAt])
	if age := r.Clock.Since(at); err != nil || age < 0 || age > reportFor {
		return nil //nolint:nilerr // a user wrote it
	}
	note := "the notebook was unused, so it was stopped; its claim stays; to start it again, set spec.suspend to false"
	if reason == v1alpha1.ReasonCulledFailing {
		note = culling.FailingNote(j.Status.LastFailure)
	}
	return r.Writer.Emit(ctx, j, events.Event{
		Type: corev1.EventTypeNormal, Reason: reason, Action: "Suspend", Note: note, Identity: string(j.UID), Since: at,
	})
}

// failingWarning is for a notebook that is stopped soon because it fails.
func failingWarning(j *v1alpha1.Jupyter) events.Event {
	at, since, reason := j.Status.FailingCullTime.Time, status.FailingSince(j), j.Status.Reason
	if last := j.Status.LastFailure; last != nil {
		reason = last.Reason
	}
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonFailingWarning, Action: "Warn",
		Note:     culling.FailingWarning(since, at, reason),
		Identity: at.UTC().Format(time.RFC3339), Since: at,
	}
}

// idleWarning is for a notebook with culling and a time of culling.
func idleWarning(n *notebook, since time.Time) events.Event {
	at := n.jupyter.Status.CullTime.Time
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonIdleWarning, Action: "Warn",
		Note:     culling.Warning(*n.culling, at),
		Identity: at.UTC().Format(time.RFC3339), Since: since,
	}
}

// maxProbes is how many notebooks are probed at the same time. A server that does not
// answer occupies a place until its timeout.
const maxProbes = 64

// prober asks servers whether notebooks are used, outside of every reconcile. It
// enqueues a notebook if the answer changes the decision.
type prober struct {
	pool    *probe.Pool[culling.Observation]
	client  *server.Client
	clock   clock.PassiveClock
	enqueue func(name types.NamespacedName)

	mu     sync.Mutex
	probed map[types.NamespacedName]*probed
}

// probed is a notebook that is probed.
type probed struct {
	target target
	record culling.Record
	// last is the input of the last decision.
	last culling.Input
}

// target is a server to probe. It does not contain the token.
type target struct {
	pod     types.UID
	node    string
	address string
	prefix  string
	// activityPath is empty if it is a Jupyter server.
	activityPath string
	token        v1alpha1.TokenSecretReference
	settings     culling.Settings
}

func newProber(clk clock.WithTicker, dial server.DialFunc, enqueue func(types.NamespacedName)) *prober {
	p := &prober{
		client: server.New(clk, dial), clock: clk, enqueue: enqueue,
		probed: map[types.NamespacedName]*probed{},
	}
	p.pool = probe.NewPool(maxProbes, clk, p.report)
	return p
}

// probes reports whether the notebook is probed at that target.
func (p *prober) probes(name types.NamespacedName, t target) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.probed[name]
	return n != nil && n.target == t
}

// put probes a notebook from now on. Results of another pod are forgotten. Only the
// check in the pool contains the token.
func (p *prober) put(name types.NamespacedName, t target, token string) {
	p.mu.Lock()
	n := p.probed[name]
	if n == nil || n.target.pod != t.pod {
		n = &probed{last: culling.Input{Settings: t.settings}}
		p.probed[name] = n
	}
	n.target = t
	p.mu.Unlock()
	at := server.Target{Address: t.address, Node: t.node, Prefix: t.prefix, ActivityPath: t.activityPath, Token: token}
	p.pool.Put(probe.Check[culling.Observation]{
		Key: name, PodUID: t.pod, Period: t.settings.Period, Timeout: t.settings.Timeout,
		Run:     func(ctx context.Context) culling.Observation { return p.observe(ctx, at) },
		Overdue: p.overdue,
	})
}

func (p *prober) overdue() culling.Observation {
	return culling.Observation{At: p.clock.Now(), Failure: "the probe does not end"}
}

// observe asks a server once. The answer covers only the time before the request.
func (p *prober) observe(ctx context.Context, at server.Target) culling.Observation {
	o := culling.Observation{At: p.clock.Now()}
	activity, err := p.client.Ask(ctx, at)
	if err != nil {
		o.Failure = err.Error()
		return o
	}
	o.Server, o.Kernels, o.Terminals = activity.Server, activity.Kernels, activity.Terminals
	o.Busy, o.Detail = activity.Busy, activity.Detail
	return o
}

// forget stops probing a notebook.
func (p *prober) forget(name types.NamespacedName) {
	p.pool.Remove(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.probed, name)
}

// forgetToken makes the next reconcile read the token of a notebook again.
func (p *prober) forgetToken(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.probed[name]; n != nil {
		n.target.token = v1alpha1.TokenSecretReference{}
	}
}

// report records the result of a probe.
func (p *prober) report(_ context.Context, name types.NamespacedName, pod types.UID, o culling.Observation) {
	if p.add(name, pod, o) {
		p.enqueue(name)
	}
}

// add reports whether an observation changes the decision.
func (p *prober) add(name types.NamespacedName, pod types.UID, o culling.Observation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.probed[name]
	if n == nil || n.target.pod != pod {
		return false
	}
	n.record = n.record.Add(o, n.last.Settings)
	return n.changesDecision(p.clock.Now())
}

func (n *probed) changesDecision(now time.Time) bool {
	in := n.last
	in.Record, in.Now = n.record, now
	d := culling.Decide(in)
	return d.Changes(in.Remembered)
}

// record returns the results of a notebook's probes.
func (p *prober) record(name types.NamespacedName) culling.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.probed[name]; n != nil {
		return n.record
	}
	return culling.Record{}
}

// decided stores the input of a decision. It reports whether a probe that ended since
// changes the decision.
func (p *prober) decided(name types.NamespacedName, in culling.Input) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.probed[name]
	if n == nil {
		return false
	}
	newer := n.record != in.Record
	n.last = in
	return newer && n.changesDecision(p.clock.Now())
}
