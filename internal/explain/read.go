package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// pageSize and maxPages limit a list of objects.
	pageSize = 500
	maxPages = 20
	// maxClaims limits the claims that are read.
	maxClaims = 32
)

// target reads the object to explain. It returns false without an error if the user may
// not read the object.
func (q *inquiry) target(o client.Object) (bool, error) {
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: q.name}, o)
	switch {
	case apierrors.IsForbidden(err):
		q.unread(q.resource.String()+" "+q.name, "get it", err)
		return false, nil
	case apierrors.IsNotFound(err) && q.namespace != "":
		return false, fmt.Errorf("check the name, and the namespace %s: %w", q.namespace, err)
	case err != nil:
		return false, err
	}
	q.object = o
	return true, nil
}

// unread records what could not be read, with the missing permission or the error.
func (q *inquiry) unread(what, permission string, err error) {
	if u := unreadOf(what, permission, err); !slices.Contains(q.explanation.NotChecked, u) {
		q.explanation.NotChecked = append(q.explanation.NotChecked, u)
	}
}

func unreadOf(what, permission string, err error) NotChecked {
	if apierrors.IsForbidden(err) {
		return NotChecked{What: what, Why: "you may not " + permission}
	}
	return NotChecked{What: what, Why: plaintext.Line(err.Error())}
}

// list reads a list page by page, and calls page after each. It returns false if it
// could not read the list.
func (q *inquiry) list(what string, list client.ObjectList, page func(), opts ...client.ListOption) bool {
	opts = append(opts, client.Limit(pageSize))
	next := ""
	for range maxPages {
		if err := q.objects.List(q.ctx, list, append(opts, client.Continue(next))...); err != nil {
			q.unread(what, "list them", err)
			return false
		}
		page()
		if next = list.GetContinue(); next == "" {
			return true
		}
	}
	q.unread(what, "", fmt.Errorf("there are more than %d", pageSize*maxPages))
	return true
}

// readPods reads the pods that an owner controls.
func (q *inquiry) readPods(selector *metav1.LabelSelector, owners ...client.Object) {
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		q.unread("pods", "", err)
		return
	}
	pods, _ := q.podsWith(labels)
	for _, p := range pods {
		if ownedBy(p, owners) {
			q.workload.Pods = append(q.workload.Pods, p)
		}
	}
}

// podsWith returns the pods of the namespace that a selector selects. It returns false if
// it could not read them.
func (q *inquiry) podsWith(selector labels.Selector) (pods []*corev1.Pod, read bool) {
	var list corev1.PodList
	read = q.list("pods", &list, func() {
		for i := range list.Items {
			pods = append(pods, list.Items[i].DeepCopy())
		}
	}, client.InNamespace(q.namespace), client.MatchingLabelsSelector{Selector: selector})
	return pods, read
}

func ownedBy(o metav1.Object, owners []client.Object) bool {
	return slices.ContainsFunc(owners, func(owner client.Object) bool { return metav1.IsControlledBy(o, owner) })
}

// readClaims reads the claims that the pods mount.
func (q *inquiry) readClaims() {
	var names []string
	for _, p := range q.workload.Pods {
		for _, name := range diagnosis.ClaimsOf(p) {
			if p.DeletionTimestamp == nil && !slices.Contains(names, name) && len(names) < maxClaims {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaim{}
		err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err):
			q.workload.Known = append(q.workload.Known, diagnosis.ClaimNotFound(name))
		case err != nil:
			q.unread("persistentvolumeclaims", "get them", err)
		default:
			q.workload.Claims = append(q.workload.Claims, claim)
			q.next = append(q.next, sourceOf(claim)...)
		}
	}
}

// lookup records what cannot be read.
type lookup struct {
	*kube.Lookup
	q *inquiry
}

// Quotas implements diagnosis.Lookup.
func (l lookup) Quotas() ([]corev1.ResourceQuota, error) {
	return record(l.q, "resourcequotas", l.Lookup.Quotas)
}

// LimitRanges implements diagnosis.Lookup.
func (l lookup) LimitRanges() ([]corev1.LimitRange, error) {
	return record(l.q, "limitranges", l.Lookup.LimitRanges)
}

func record[T any](q *inquiry, what string, list func() ([]T, error)) ([]T, error) {
	objects, err := list()
	if err != nil {
		q.unread(what, "list them", err)
	}
	return objects, err
}

// readNodes summarizes the capacity of the nodes.
func (q *inquiry) readNodes() {
	var list corev1.NodeList
	var nodes []corev1.Node
	if q.list("nodes", &list, func() { nodes = append(nodes, list.DeepCopy().Items...) }) {
		q.workload.Nodes, q.workload.NodeStates = diagnosis.SummarizeNodes(nodes), diagnosis.NodeStates(nodes)
	}
}

// The kinds whose Events are always read.
const (
	kindPod   = "Pod"
	kindClaim = "PersistentVolumeClaim"
)

// readEvents reads the Events of the pods, of their claims, and of the pods' controllers
// if pods are missing.
func (q *inquiry) readEvents() {
	names := map[string][]string{kindPod: q.gonePods}
	for _, p := range q.workload.Pods {
		names[kindPod] = append(names[kindPod], p.Name)
	}
	for _, c := range q.workload.Claims {
		names[kindClaim] = append(names[kindClaim], c.Name)
	}
	if q.missing {
		for _, c := range q.controllers {
			names[c.Kind] = append(names[c.Kind], c.Name)
		}
	}
	kinds := make([]string, 0, len(names))
	for kind := range names {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		if len(names[kind]) > 0 && !q.readEventsOf(kind, names[kind]) {
			return
		}
	}
}

// readEventsOf reads the Events of one object, or of all objects of the kind, because
// one request per object would take longer.
func (q *inquiry) readEventsOf(kind string, names []string) bool {
	selector := fields.Set{"involvedObject.kind": kind}
	if len(names) == 1 {
		selector["involvedObject.name"] = names[0]
	}
	var list corev1.EventList
	return q.list("events", &list, func() {
		for i := range list.Items {
			if e := &list.Items[i]; slices.Contains(names, e.InvolvedObject.Name) {
				q.workload.Events = append(q.workload.Events, eventOf(e))
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingFieldsSelector{Selector: selector.AsSelector()})
}

// aroundEnd is how far the Event of a node can be from the end of a container that it explains.
const aroundEnd = 10 * time.Second

// addNodeEvent adds what the node reported in the seconds in which the container of the cause was killed, such
// as a lack of memory. Its Events are in the namespace default, which not all users may read.
func (q *inquiry) addNodeEvent(c *diagnosis.Cause) {
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == c.Object.Name })
	if c.ExitCode == nil || *c.ExitCode != killed || c.Reason == diagnosis.ReasonOOMKilled || c.Time.IsZero() || i < 0 {
		return
	}
	selector := fields.Set{"involvedObject.kind": kindNode, "involvedObject.name": q.workload.Pods[i].Spec.NodeName}
	var list corev1.EventList
	q.list("events of nodes", &list, func() {
		for i := range list.Items {
			e := eventOf(&list.Items[i])
			if distance := e.LastSeen.Sub(c.Time).Abs(); e.Type == corev1.EventTypeWarning && distance <= aroundEnd && !strings.Contains(c.Message, "its node reported") {
				c.Message += "; at that time, its node reported " + e.Reason + ": " + shortLine(e.Note)
			}
		}
	}, client.InNamespace(metav1.NamespaceDefault), client.MatchingFieldsSelector{Selector: selector.AsSelector()})
}

// killed is the exit code of a process that the signal SIGKILL ended.
const killed = 137

// eventOf converts an Event for the diagnosis. It computes time and count like the
// operator.
func eventOf(e *corev1.Event) diagnosis.Event {
	same := eventsv1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, Type: e.Type, Reason: e.Reason, Note: e.Message, Regarding: e.InvolvedObject,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		same.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return diagnosis.NewEvent(&same)
}

// The limits of a log.
const (
	maxLines    = 10
	maxLogBytes = 16 << 10
	maxLine     = 400
	maxEnd      = 150 // of a longer line; Go and Java put the first cause of an error last
)

// logged are the reasons for which a log may contain the details.
var logged = []string{diagnosis.ReasonCrashLoopBackOff, diagnosis.ReasonError, diagnosis.ReasonOOMKilled, diagnosis.ReasonPodInitializing, diagnosis.ReasonUnhealthy}

// readLog reads the end of the log of the first container that crashed, or of an init container that
// does not end.
func (q *inquiry) readLog() {
	x := &q.explanation
	causes := []*Cause{x.Cause}
	for i := range x.Others {
		causes = append(causes, &x.Others[i])
	}
	for _, c := range causes {
		if c.Container == "" || !slices.Contains(logged, c.Reason) {
			continue
		}
		i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == c.Object.Name })
		if i >= 0 {
			if x.Log = q.tail(q.workload.Pods[i], c); x.Log != nil {
				c.addLog(x.Log.Lines)
			}
			return
		}
	}
}

// tail returns the last lines of the log of the container that a cause is about, or nil if the log
// cannot be read. If the container crashed, these are the lines before it ended.
func (q *inquiry) tail(p *corev1.Pod, c *Cause) *Log {
	container := c.Container
	log := &Log{Pod: p.Name, Container: container, Previous: c.Reason != diagnosis.ReasonPodInitializing && c.Reason != diagnosis.ReasonUnhealthy && !hasEnded(p, container)}
	text, err := q.readTail(p, log, maxLines, maxLogBytes, false)
	if err != nil {
		return nil
	}
	lines := splitLog(text)
	log.whole = lines[max(0, len(lines)-maxLines):]
	for _, line := range log.whole {
		log.Lines = append(log.Lines, cutLine(line))
	}
	return log
}

// readTail reads the last lines of a log, with the times at which they were written if that is wanted. It records if this
// fails.
func (q *inquiry) readTail(p *corev1.Pod, log *Log, lines, size int64, timestamps bool) (string, error) {
	stream, err := q.logs.Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: log.Container, Previous: log.Previous, TailLines: &lines, LimitBytes: &size, Timestamps: timestamps,
	}).Stream(q.ctx)
	what := "the log of container " + log.Container + " of pod " + p.Name
	if apierrors.IsNotFound(err) {
		q.unread(what, "", errors.New("the node does not have it any more"))
		return "", err
	}
	if err != nil {
		q.unread(what, "get pods/log", err)
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, size))
	if err != nil {
		q.unread(what, "", err)
	}
	return string(text), nil // what was read before can be enough
}

// hasEnded reports whether the container is terminated and has not been restarted.
func hasEnded(p *corev1.Pod, container string) bool {
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Terminated != nil
	})
}

// messageIn returns the message and the error of a line in JSON, without control characters. It is empty if there is none.
func messageIn(line string) string {
	var fields map[string]any
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &fields) != nil {
		return ""
	}
	text := func(names ...string) string {
		for _, name := range names {
			s, _ := fields[name].(string)
			if of, ok := fields[name].(map[string]any); ok { // getpino.io, serializers
				s, _ = of["message"].(string)
			}
			if s != "" {
				return strings.TrimRight(plaintext.Clean(s), " \n")
			}
		}
		return ""
	}
	message, reason := text("message", "msg"), text("error", "err")
	if strings.Contains(message, reason) {
		return message
	}
	return strings.TrimPrefix(message+": "+reason, ": ")
}

// splitLog removes control characters and returns the lines. A long one in JSON is replaced by the lines of its message.
func splitLog(text string) []string {
	text = strings.TrimRight(plaintext.Clean(text), " \n")
	if text == "" {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if message := messageIn(line); len([]rune(line)) > maxLine && message != "" {
			line = message
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	return lines
}

// cutLine leaves out the middle of a long line.
func cutLine(line string) string {
	runes := []rune(line)
	if len(runes) <= maxLine {
		return line
	}
	return string(runes[:maxLine-maxEnd]) + "…" + string(runes[len(runes)-maxEnd:])
}
