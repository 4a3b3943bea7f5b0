package diagnosis

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object names an object in the workload's namespace, or a cluster-scoped one.
type Object struct{ Kind, Name string }

// Event is the part of a Kubernetes Event that the diagnosis uses.
type Event struct {
	Type, Reason, Note string
	Regarding          Object
	// UID of the regarding object, if known. Events of an earlier object of the same name
	// are ignored.
	UID types.UID
	// FieldPath is the part of the object, such as spec.containers{app}.
	FieldPath string
	// FirstSeen and LastSeen are when it first and last occurred, or zero if unknown.
	FirstSeen, LastSeen time.Time
	// Count is how often it occurred. Values below 1 count as 1.
	Count int64
}

// NewEvent returns the part of an Event that the diagnosis uses.
func NewEvent(e *eventsv1.Event) Event {
	event := Event{
		Type: e.Type, Reason: e.Reason, Note: e.Note,
		Regarding: Object{Kind: e.Regarding.Kind, Name: e.Regarding.Name}, UID: e.Regarding.UID, FieldPath: e.Regarding.FieldPath,
		Count: int64(max(e.DeprecatedCount, 1)),
	}
	times := []time.Time{e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time}
	if e.Series != nil {
		event.Count = int64(max(e.Series.Count, 1))
		times = slices.Insert(times, 0, e.Series.LastObservedTime.Time)
	}
	event.LastSeen = firstOf(times...)
	event.FirstSeen = firstOf(e.DeprecatedFirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
	return event
}

// firstOf returns the first time that is known.
func firstOf(times ...time.Time) time.Time {
	if i := slices.IndexFunc(times, func(t time.Time) bool { return !t.IsZero() }); i >= 0 {
		return times[i]
	}
	return time.Time{}
}

// relevantNormal are the reasons of Normal Events that the diagnosis uses.
var relevantNormal = map[string]bool{
	"BackOff": true, "Created": true, "Preempted": true, "TaintManagerEviction": true, "ExternalProvisioning": true, "FailedBinding": true, "Killing": true, "Pulled": true,
	"Nominated": true, "NotTriggerScaleUp": true, "TriggeredScaleUp": true, "Pulling": true, provisioned: true, "Started": true, "SuccessfulAttachVolume": true, "WaitForFirstConsumer": true, "WaitForPodScheduled": true,
}

// IsRelevant reports whether the diagnosis uses Events of a type and reason. It can use
// every Warning. Drop other Events to save memory.
func IsRelevant(eventType, reason string) bool {
	return eventType == corev1.EventTypeWarning || eventType == corev1.EventTypeNormal && relevantNormal[reason]
}

// Nodes summarizes the nodes of the cluster.
type Nodes struct {
	// Total is the number of nodes.
	Total int
	// Largest is the largest allocatable amount that any node has of each resource.
	Largest corev1.ResourceList
	// Taints are those that exclude pods, without the time at which they were added, and the
	// number of nodes that have each.
	Taints map[corev1.Taint]int
	// Places show which nodes can use a volume.
	Places []NodePlace
}

// NodePlace is where a node is.
type NodePlace struct {
	Name   string
	Labels map[string]string
	// Cordoned means that the node takes no new pods.
	Cordoned bool
}

// Workload is what the caller knows about a workload. Pass only objects that belong to
// the workload, by their controller references. All fields are optional. Diagnose does
// not change them.
type Workload struct {
	Pods   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	// Volumes are those of the claims of pods for which [Workload.NeedsVolumes] is true.
	Volumes []*corev1.PersistentVolume
	// Controllers are the UIDs of the objects that create the pods, such as a ReplicaSet.
	// Events of other controllers are ignored. Nil accepts all.
	Controllers []types.UID
	// Nodes is nil if the caller cannot read nodes. Messages then omit the largest node.
	Nodes *Nodes
	// NodeStates are the states of the pods' nodes, as far as they could be read. See [NodeStates].
	NodeStates map[string]NodeState
	// Surging is the Deployment whose rollout creates new pods while old ones run; empty if
	// there is none. See [SurgingDeployment].
	Surging string
	// KeepsOldPods means that this rollout ends no old pod before a new one is ready. See [KeepsOldPods].
	KeepsOldPods bool
	// Outdated is a pod with a former template that its StatefulSet does not replace; empty if there
	// is none. See [OutdatedPod].
	Outdated string
	// FormerJob is the Job whose pods these are, if it has a former template of its CronJob, and prevents
	// the next Job. Otherwise it is nil.
	FormerJob *FormerJob
	// Recreated means that each deleted pod is created again. What failed in a deleted pod is then
	// over: only Events about why it was deleted count.
	Recreated bool
	// Events that regard the pods, claims and controllers, in any order.
	Events []Event
	// Now is the time of the check. It decides what is still starting, see [Cause.LateAfter], and when an
	// advice to wait ends, see [Cause.LateAdvice]. Without it, everything that has not started is a failure.
	Now time.Time
	// Known are causes that the caller found itself: a rejected request, an invalid
	// field, a condition of a Deployment. They are reported even if all pods are ready.
	Known []Cause
}

// SummarizeNodes returns the summary of a list of nodes.
func SummarizeNodes(nodes []corev1.Node) *Nodes {
	sum := &Nodes{Total: len(nodes), Largest: corev1.ResourceList{}, Taints: map[corev1.Taint]int{}}
	for i := range nodes {
		place := NodePlace{Name: nodes[i].Name, Labels: nodes[i].Labels}
		for _, taint := range nodes[i].Spec.Taints {
			place.Cordoned = place.Cordoned || taint.Key == corev1.TaintNodeUnschedulable
			if taint.Effect != corev1.TaintEffectPreferNoSchedule {
				taint.TimeAdded = nil
				sum.Taints[taint]++
			}
		}
		for name, amount := range nodes[i].Status.Allocatable {
			if amount.Cmp(sum.Largest[name]) > 0 {
				sum.Largest[name] = amount
			}
		}
		sum.Places = append(sum.Places, place)
	}
	return sum
}

// NodeState is whether a node responds and is ready, since the time Since.
type NodeState struct {
	// Lost means that the control plane does not receive its status.
	Lost bool
	// NotReady means that its kubelet reports that it is not ready.
	NotReady bool
	Since    time.Time
}

// NodeStates returns the states of nodes, by name.
func NodeStates(nodes []corev1.Node) map[string]NodeState {
	states := map[string]NodeState{}
	for i := range nodes {
		var state NodeState
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				state = NodeState{Lost: c.Status == corev1.ConditionUnknown, NotReady: c.Status == corev1.ConditionFalse, Since: c.LastTransitionTime.Time}
			}
		}
		states[nodes[i].Name] = state
	}
	return states
}

// The kinds that the diagnosis distinguishes.
const (
	kindPod   = "Pod"
	kindClaim = "PersistentVolumeClaim"
)

// view is a Workload, sorted and indexed.
type view struct {
	Workload
	// currentPods are the pods whose problems count. It excludes deleted pods, unless
	// their node is lost, completed pods, and failed pods that have been replaced.
	currentPods []*corev1.Pod
	claims      map[string]*corev1.PersistentVolumeClaim
}

func newView(w Workload) *view {
	v := &view{
		Workload: w,
		claims:   map[string]*corev1.PersistentVolumeClaim{},
	}
	v.Events = slices.SortedFunc(slices.Values(w.Events), compareEvents)
	v.Pods = slices.SortedFunc(slices.Values(w.Pods), comparePods)
	for _, c := range w.Claims {
		v.claims[c.Name] = c
	}
	for _, p := range v.Pods {
		if v.isCurrent(p) {
			v.currentPods = append(v.currentPods, p)
		}
	}
	return v
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// compareEvents orders Events by time, those without a time first.
func compareEvents(a, b Event) int {
	return cmp.Or(
		a.LastSeen.Compare(b.LastSeen),
		cmp.Compare(a.Count, b.Count),
		cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Note, b.Note),
		cmp.Compare(a.FieldPath, b.FieldPath),
		cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Type, b.Type),
		cmp.Compare(a.Regarding.Kind, b.Regarding.Kind),
		cmp.Compare(a.Regarding.Name, b.Regarding.Name),
	)
}

func (v *view) isCurrent(p *corev1.Pod) bool {
	switch {
	case v.podView(p).isLost():
		return !v.replaced(p)
	case p.DeletionTimestamp != nil, p.Status.Phase == corev1.PodSucceeded:
		return false
	case p.Status.Phase == corev1.PodFailed:
		return !v.replaced(p)
	}
	return true
}

// replaced reports whether a newer pod has taken the place of p.
func (v *view) replaced(p *corev1.Pod) bool {
	return slices.ContainsFunc(v.Pods, func(other *corev1.Pod) bool {
		return other.UID != p.UID && other.DeletionTimestamp == nil && other.Status.Phase != corev1.PodFailed &&
			!other.CreationTimestamp.Before(&p.CreationTimestamp)
	})
}

// ready reports whether there are pods and all of them are ready.
func (v *view) ready() bool {
	return len(v.currentPods) > 0 && !slices.ContainsFunc(v.currentPods, func(p *corev1.Pod) bool { return !isReady(p) })
}

func isReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// podFindings returns why the pods do not run. If there are none, it looks at the Events
// of deleted pods.
func (v *view) podFindings() []finding {
	if len(v.Pods) == 0 {
		return v.deletedPodFindings()
	}
	var found []finding
	for _, p := range v.currentPods {
		if !isReady(p) {
			found = append(found, v.adviseReplacement(p, v.podCauses(p))...)
		}
	}
	return found
}

// eventsFor returns the Events of an object in order, without those of an earlier object
// of the same name.
func (v *view) eventsFor(object Object, uid types.UID) []Event {
	var events []Event
	for _, e := range v.Events {
		if e.Regarding == object && (e.UID == "" || uid == "" || e.UID == uid) {
			events = append(events, e)
		}
	}
	return events
}

// latest returns the last Event with one of the reasons, or nil.
func latest(events []Event, reasons ...string) *Event {
	for i, e := range slices.Backward(events) {
		if slices.Contains(reasons, e.Reason) {
			return &events[i]
		}
	}
	return nil
}

// recent returns the Events with one of the reasons that are not much older than the
// last. Problems that persist are reported every few minutes.
func recent(events []Event, reasons ...string) []Event {
	const repeated = 10 * time.Minute
	last := latest(events, reasons...)
	if last == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		return !slices.Contains(reasons, e.Reason) || !e.LastSeen.IsZero() && e.LastSeen.Add(repeated).Before(last.LastSeen)
	})
}

// isAfter reports whether the Event is known to be later than t.
func (e *Event) isAfter(t time.Time) bool { return e != nil && e.LastSeen.After(t) && !t.IsZero() }

func (e *Event) count() int32 { return int32(min(max(e.Count, 1), 1<<30)) }

var containerPath = compile(`^spec\.(?:initContainers|containers|ephemeralContainers)\{([a-z0-9-]{1,63})\}$`)

// Container returns the name of the container that the Event regards, or "".
func (e *Event) Container() string {
	if m := containerPath.FindStringSubmatch(e.FieldPath); m != nil {
		return m[1]
	}
	return ""
}
