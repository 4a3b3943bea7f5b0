package probe

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

const (
	// maxChecks is how many pods a Prober checks at the same time. A pod that does not
	// answer occupies a place until its timeout.
	maxChecks = 1024
	// collectFor is how long changes of the pods of an owner are collected before it is
	// enqueued.
	collectFor = 300 * time.Millisecond
)

// Checker makes checks, like healthcheck.Checker.
type Checker interface {
	// Run makes a check. It returns shortly after the end of ctx.
	Run(ctx context.Context, check healthcheck.Check) healthcheck.Observation
	// Overdue returns the observation for a Run that did not return.
	Overdue(check healthcheck.Check) healthcheck.Observation
}

// Prober checks the pods of the objects of a controller, outside of reconciles. It is a
// source.Source of that controller: it enqueues the owner of a pod when the health of the pod
// changes. It is safe for concurrent use.
type Prober struct {
	clock   clock.PassiveClock
	checker Checker
	pool    *Pool[healthcheck.Observation]
	// real: the checker connects to the addresses of pods. Those of simulated pods can be of
	// other machines.
	real bool
	// Observed is called with each observation, for example to count it in a metric. Set it
	// before the start. It must return quickly. It can be nil.
	Observed func(healthcheck.Observation)

	mu sync.Mutex
	// queue is nil until the controller starts.
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	owners map[types.NamespacedName]*owner
	// ownerOf are the owners of the pods that are checked.
	ownerOf map[types.NamespacedName]types.NamespacedName
}

var _ source.Source = (*Prober)(nil)

// owner is an object whose pods are checked.
type owner struct {
	spec Spec
	pods map[types.NamespacedName]*checkedPod
}

// checkedPod is a pod that is checked.
type checkedPod struct {
	uid     types.UID
	started time.Time
	address string
	history History
}

// ForManager returns a Prober with the permissions of a manager, and adds what it needs to the
// manager. Pass it to WatchesRawSource of the controller. Commands need get and create on
// pods/exec. HTTP checks need a permission only with the transport APIServer: get on
// pods/proxy. A simulated pod of package localcluster has no network, and its health is unknown.
func ForManager(mgr manager.Manager) (*Prober, error) {
	runner, err := podexec.New(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	checker, err := healthcheck.New(clock.RealClock{}, mgr.GetConfig(), runner, nil)
	if err != nil {
		return nil, err
	}
	p := New(clock.RealClock{}, checker)
	p.real = true
	for _, part := range []manager.Runnable{runner, manager.RunnableFunc(p.Run)} {
		if err := mgr.Add(part); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// New returns a Prober that makes checks with checker. Call Run, or let a manager do it. Usually
// you want ForManager.
func New(clk clock.WithTicker, checker Checker) *Prober {
	p := &Prober{
		clock: clk, checker: checker,
		owners: map[types.NamespacedName]*owner{}, ownerOf: map[types.NamespacedName]types.NamespacedName{},
	}
	p.pool = NewPool(maxChecks, clk, p.report)
	return p
}

// Run makes the checks until ctx ends, like Pool.Start. A second call returns an error.
func (p *Prober) Run(ctx context.Context) error { return p.pool.Start(ctx) }

// Start implements source.Source. The controller calls it.
func (p *Prober) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = queue
	return nil
}

// Len returns the number of pods that are checked.
func (p *Prober) Len() int { return p.pool.Len() }

// PodHealth is the health of a pod, for the status of its owner.
type PodHealth struct {
	// name is the name of the pod.
	Name string `json:"name"`
	// podUID distinguishes pods of the same name.
	PodUID types.UID `json:"podUID"`
	// health is Healthy, Unhealthy, or Unknown.
	Health State `json:"health"`
	// reason says why the pod is not healthy, in a word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says why the pod is not healthy, in one line of at most 512 bytes.
	// +optional
	Message string `json:"message,omitempty"`
	// lastTransitionTime is when health or reason changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// DeepCopyInto copies the health.
func (h *PodHealth) DeepCopyInto(to *PodHealth) {
	*to = *h
	h.LastTransitionTime.DeepCopyInto(&to.LastTransitionTime)
}

// DeepCopy returns a copy.
func (h *PodHealth) DeepCopy() *PodHealth {
	to := new(PodHealth)
	h.DeepCopyInto(to)
	return to
}

// Probe checks the pods of an owner from now on, and no others. It returns their health so far,
// ordered by name. Terminating pods are left out. Call it in every reconcile:
//
//	status.Pods = prober.Probe(req.NamespacedName, &spec, pods, status.Pods)
//
// stored is what the last call returned, from the status. After a restart of the operator, the
// health of a pod stays the stored one until checks change it. An entry differs from the
// stored one only if health or reason changed. The same state therefore causes no write, and an
// Event whose time is LastTransitionTime is the same after a restart.
//
// Probe does not shorten the list. An entry has at most 900 bytes: list a thousand pods at most.
func (p *Prober) Probe(name types.NamespacedName, spec *Spec, pods []*corev1.Pod, stored []PodHealth) []PodHealth {
	byUID := make(map[types.UID]*PodHealth, len(stored))
	for i := range stored {
		byUID[stored[i].PodUID] = &stored[i]
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	histories := p.Watch(name, spec, pods, func(pod *corev1.Pod) History { return restore(byUID[pod.UID]) })
	all := make([]PodHealth, 0, len(pods))
	for _, pod := range pods {
		h := histories[pod.UID]
		if h.IsZero() { // it is not running
			h = restore(byUID[pod.UID])
		}
		if _, err := spec.Check(pod); err != nil && h.Reason == ReasonNotChecked {
			h.Message = plaintext.Cut(plaintext.Line(err.Error()), maxMessage)
		}
		all = append(all, p.entry(pod, h, byUID[pod.UID]))
	}
	slices.SortFunc(all, func(a, b PodHealth) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// restore returns the history of a pod from its stored health, which may be nil.
func restore(stored *PodHealth) History {
	if stored == nil || stored.Reason == ReasonNotChecked { // the message of the latter can be about a former spec
		return Unchecked()
	}
	return History{State: stored.Health, Reason: stored.Reason, Message: stored.Message, Since: stored.LastTransitionTime.Time}
}

// entry returns the health of a pod: the stored one if it has not changed.
func (p *Prober) entry(pod *corev1.Pod, h History, stored *PodHealth) PodHealth {
	if stored != nil && stored.Health == h.State && stored.Reason == h.Reason && (h.Since.IsZero() || h.Since.Equal(stored.LastTransitionTime.Time)) {
		same := *stored.DeepCopy()
		if h.Reason == ReasonNotChecked {
			same.Message = h.Message
		}
		return same
	}
	since := h.Since
	if since.IsZero() {
		since = p.clock.Now().Truncate(time.Second)
	}
	return PodHealth{Name: pod.Name, PodUID: pod.UID, Health: h.State, Reason: h.Reason, Message: h.Message, LastTransitionTime: metav1.NewTime(since)}
}

// Watch is Probe for a status of your own form. It returns the histories of the pods whose
// container is running. restore returns the history of a pod that is new to this process, from
// your status. It must not call the Prober. pods must contain no terminating pods.
func (p *Prober) Watch(name types.NamespacedName, spec *Spec, pods []*corev1.Pod, restore func(*corev1.Pod) History) map[types.UID]History {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.owners[name]
	if o == nil || !apiequality.Semantic.DeepEqual(&o.spec, spec) {
		p.drop(name)
		o = &owner{spec: Spec{Probe: *spec.Probe.DeepCopy(), Container: spec.Container, Transport: spec.Transport}, pods: map[types.NamespacedName]*checkedPod{}}
		p.owners[name] = o
	}
	histories := make(map[types.UID]History, len(pods))
	wanted := make(map[types.NamespacedName]bool, len(pods))
	for _, pod := range pods {
		if started, ok := o.spec.startOf(pod); ok {
			wanted[client.ObjectKeyFromObject(pod)] = true
			histories[pod.UID] = p.put(name, o, pod, started, restore)
		}
	}
	for pod := range o.pods {
		if !wanted[pod] {
			p.remove(o, pod)
		}
	}
	return histories
}

// put checks one pod from now on. A pod that has not changed keeps its interval. It must be
// called with the lock.
func (p *Prober) put(name types.NamespacedName, o *owner, pod *corev1.Pod, started time.Time, restore func(*corev1.Pod) History) History {
	key := client.ObjectKeyFromObject(pod)
	c := o.pods[key]
	switch {
	case c == nil || c.uid != pod.UID:
		c = &checkedPod{uid: pod.UID, history: restore(pod)}
		o.pods[key] = c
	case c.started.Equal(started) && c.address == pod.Status.PodIP:
		return c.history
	}
	restarted := !c.started.IsZero() && !c.started.Equal(started)
	c.started, c.address = started, pod.Status.PodIP
	c.history = c.history.Started(started)
	if restarted {
		p.pool.Remove(key) // the initial delay begins again
	}
	check, err := o.spec.Check(pod)
	if err != nil {
		return c.history // a pod of a former template has no such port
	}
	p.ownerOf[key] = name
	p.pool.Put(Check[healthcheck.Observation]{
		Key: key, PodUID: pod.UID,
		InitialDelay: max(0, seconds(o.spec.InitialDelaySeconds)-p.clock.Since(started)),
		Period:       o.spec.period(),
		Timeout:      check.Limit(),
		Run:          p.run(check, isSimulated(pod)),
		Overdue:      func() healthcheck.Observation { return p.checker.Overdue(check) },
	})
	return c.history
}

// run returns the function that makes a check.
func (p *Prober) run(check healthcheck.Check, simulated bool) func(context.Context) healthcheck.Observation {
	return func(ctx context.Context) healthcheck.Observation {
		if p.real && simulated && check.HTTP != nil && check.HTTP.Transport != healthcheck.APIServer {
			return healthcheck.Observation{At: p.clock.Now(), Outcome: healthcheck.Unreachable, Message: "the pod is simulated: it has no network"}
		}
		o := p.checker.Run(ctx, check)
		if p.real && simulated && o.Outcome == healthcheck.Unreachable {
			o.Message = "the pod is simulated: it runs no commands"
		}
		return o
	}
}

// report records the result of a check, and enqueues the owner if the health changed.
func (p *Prober) report(_ context.Context, pod types.NamespacedName, uid types.UID, o healthcheck.Observation) {
	if p.Observed != nil {
		p.Observed(o)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := p.ownerOf[pod]
	owner := p.owners[name]
	if owner == nil {
		return
	}
	c := owner.pods[pod]
	if c == nil || c.uid != uid {
		return
	}
	before := c.history
	c.history = before.Add(o, owner.spec.Thresholds())
	if IsNews(before, c.history) && p.queue != nil {
		p.queue.AddAfter(reconcile.Request{NamespacedName: name}, collectFor)
	}
}

// Forget ends the checks of an owner. Call it when the owner is deleted.
func (p *Prober) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(name)
}

// drop must be called with the lock.
func (p *Prober) drop(name types.NamespacedName) {
	o := p.owners[name]
	if o == nil {
		return
	}
	for pod := range o.pods {
		p.remove(o, pod)
	}
	delete(p.owners, name)
}

// remove must be called with the lock.
func (p *Prober) remove(o *owner, pod types.NamespacedName) {
	p.pool.Remove(pod)
	delete(p.ownerOf, pod)
	delete(o.pods, pod)
}
