package diagnosis

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Object names an object of the workload's namespace, or one that has none.
type Object struct{ Kind, Name string }

// Event is what is read of an Event.
type Event struct {
	Type, Reason, Note string
	Regarding          Object
	// UID of the regarding object, or empty. An Event of an earlier object of the
	// same name tells nothing of the one that there is.
	UID types.UID
	// FieldPath is the part of the object, such as spec.containers{notebook}.
	FieldPath string
	// LastSeen is when it last occurred; zero if it does not say.
	LastSeen time.Time
	// Count is how often it has occurred, at least 1.
	Count int64
}

// telling are the reasons of Normal Events that the diagnosis reads.
var relevantNormal = map[string]bool{
	"BackOff": true, "Created": true, "ExternalProvisioning": true, "FailedBinding": true, "Killing": true, "Pulled": true,
	"Pulling": true, "Started": true, "SuccessfulAttachVolume": true, "WaitForFirstConsumer": true, "WaitForPodScheduled": true,
}

// Reads tells whether Events of the type and reason are read. Of Warnings, all may be.
func IsRelevant(eventType, reason string) bool {
	return eventType == corev1.EventTypeWarning || eventType == corev1.EventTypeNormal && relevantNormal[reason]
}

// Nodes sums up the nodes of the cluster.
type Nodes struct {
	// Total is how many there are.
	Total int
	// CPU and Memory are those of the node that has most of each.
	CPU, Memory resource.Quantity
}

// Workload is what is known of something that runs pods. Only what is its own may
// be in it: whoever collects it has checked who controls what.
type Workload struct {
	Pods   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	Quotas []*corev1.ResourceQuota
	// Controllers are the UIDs of what makes the pods; nil: not known. An Event of an
	// earlier one of the name is not believed.
	Controllers []types.UID
	// Nodes may be nil: not known.
	Nodes *Nodes
	// Events that regard the workload, its controller, pods or claims.
	Events []Event
	// Known are causes that whoever asks has found already: a refusal of the API
	// server, an invalid field, a condition of a Deployment.
	Known []Cause
}

// SumUp sums up the nodes of a cluster.
func SummarizeNodes(nodes []corev1.Node) *Nodes {
	sum := &Nodes{Total: len(nodes)}
	for i := range nodes {
		allocatable := nodes[i].Status.Allocatable
		if cpu := allocatable.Cpu(); cpu.Cmp(sum.CPU) > 0 {
			sum.CPU = *cpu
		}
		if memory := allocatable.Memory(); memory.Cmp(sum.Memory) > 0 {
			sum.Memory = *memory
		}
	}
	return sum
}

// kindPod and kindClaim are the kinds that are told apart.
const (
	kindPod   = "Pod"
	kindClaim = "PersistentVolumeClaim"
)

// view is a workload in an order of its own.
type view struct {
	Workload
	// current are the pods that count: not those that are being deleted, unless their
	// node is lost, have ended well, or have failed and been replaced.
	currentPods []*corev1.Pod
	claims      map[string]*corev1.PersistentVolumeClaim
	quotas      map[string]*corev1.ResourceQuota
}

func newView(w Workload) *view {
	v := &view{
		Workload: w,
		claims:   map[string]*corev1.PersistentVolumeClaim{},
		quotas:   map[string]*corev1.ResourceQuota{},
	}
	v.Events = slices.SortedFunc(slices.Values(w.Events), compareEvents)
	v.Pods = slices.SortedFunc(slices.Values(w.Pods), comparePods)
	for _, c := range w.Claims {
		v.claims[c.Name] = c
	}
	for _, q := range w.Quotas {
		v.quotas[q.Name] = q
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

// earlier orders Events by time; those that do not say theirs are the earliest.
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

// replaced tells whether there is another pod since that goes on.
func (v *view) replaced(p *corev1.Pod) bool {
	return slices.ContainsFunc(v.Pods, func(other *corev1.Pod) bool {
		return other.UID != p.UID && other.DeletionTimestamp == nil && other.Status.Phase != corev1.PodFailed &&
			!other.CreationTimestamp.Before(&p.CreationTimestamp)
	})
}

// ready tells whether all that runs, and something does, is ready.
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

// running returns why the pods do not run; or did not, if there are none left.
func (v *view) podFindings() []finding {
	if len(v.Pods) == 0 {
		return v.deletedPodFindings()
	}
	var found []finding
	for _, p := range v.currentPods {
		if !isReady(p) {
			found = append(found, v.podCauses(p)...)
		}
	}
	return found
}

// about returns the Events of an object in their order. One of an earlier object of
// the name does not belong to it.
func (v *view) eventsFor(object Object, uid types.UID) []Event {
	var events []Event
	for _, e := range v.Events {
		if e.Regarding == object && (e.UID == "" || uid == "" || e.UID == uid) {
			events = append(events, e)
		}
	}
	return events
}

// latest returns the last of the Events with one of the reasons, or nil.
func latest(events []Event, reasons ...string) *Event {
	for i, e := range slices.Backward(events) {
		if slices.Contains(reasons, e.Reason) {
			return &events[i]
		}
	}
	return nil
}

// recent returns those of the Events with one of the reasons that are not much older
// than the last: what lasts is told again every few minutes.
func recent(events []Event, reasons ...string) []Event {
	const told = 10 * time.Minute
	last := latest(events, reasons...)
	if last == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		return !slices.Contains(reasons, e.Reason) || !e.LastSeen.IsZero() && e.LastSeen.Add(told).Before(last.LastSeen)
	})
}

// since tells whether the Event is known to be of a later time.
func (e *Event) isAfter(t time.Time) bool { return e != nil && e.LastSeen.After(t) && !t.IsZero() }

func (e *Event) count() int32 { return int32(min(max(e.Count, 1), 1<<30)) }

var containerPath = regexp.MustCompile(`^spec\.(?:initContainers|containers|ephemeralContainers)\{([a-z0-9-]{1,63})\}$`)

// container returns the name of the container that the Event regards, or "".
func (e *Event) container() string {
	if m := containerPath.FindStringSubmatch(e.FieldPath); m != nil {
		return m[1]
	}
	return ""
}
