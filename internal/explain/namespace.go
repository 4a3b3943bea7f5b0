package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The limits for a namespace that is being deleted: types that are read, and objects of
// each type that are shown.
const (
	maxRemainingTypes   = 10
	maxRemainingObjects = 5
)

const kindNamespace = "Namespace"

// namespaceObject explains a namespace: why its deletion does not end.
func (q *inquiry) namespaceObject() error {
	const kind = kindNamespace
	q.explanation.passive = true
	n := &corev1.Namespace{}
	if readable, err := q.targetOf(kind, n); !readable {
		return err
	}
	if n.DeletionTimestamp == nil {
		q.set(kind, Running, "it is active; use -n "+n.Name+" without an object to list the problems in it")
		return nil
	}
	q.set(kind, Stopped, "it is being deleted")
	if !q.isStuck(n) {
		return nil
	}
	q.held = true
	object := diagnosis.Object{Kind: kind, Name: n.Name}
	for _, c := range n.Status.Conditions {
		if cause := remainingCause(c); c.Status == corev1.ConditionTrue && cause != nil {
			cause.Object, cause.Time = object, c.LastTransitionTime.Time
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure {
				for _, name := range apiServices(c.Message) {
					q.next = append(q.next, newReference(apiService, "", name, ", which serves some of them,"))
				}
			}
			q.workload.Known = append(q.workload.Known, *cause)
		}
	}
	if q.logs != nil {
		q.readRemaining(n)
	}
	q.remainingFinalizers(n)
	return nil
}

// The parts of the conditions that the namespace controller writes:
// kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go and
// client-go/discovery/discovery_client.go.
var (
	failedGroup       = regexp.MustCompile(`([a-z0-9][a-z0-9.-]*)/(v[a-z0-9]+): `)
	remainingResource = regexp.MustCompile(`([a-z0-9-]+)\.([a-z0-9.-]*) has (\d+) resource instances`)
	remainingBy       = regexp.MustCompile(`(?:: |, )(\S+) in (\d+) resource instances`)
)

// remainingCause returns the cause that a condition of a namespace shows, or nil.
func remainingCause(c corev1.NamespaceCondition) *diagnosis.Cause {
	cause := &diagnosis.Cause{Reason: c.Reason, Message: c.Message, Transient: true}
	switch c.Type {
	case corev1.NamespaceDeletionDiscoveryFailure:
		if services := apiServices(c.Message); len(services) > 0 {
			cause.Message = "the namespace controller cannot list all types of objects, because these APIServices do not answer: " + nameList(services)
		}
		cause.Advice = "make the server of the APIService available again, or delete the APIService if it is no longer used"
	case corev1.NamespaceContentRemaining:
		if found := remainingResource.FindAllStringSubmatch(c.Message, -1); len(found) > 0 {
			var resources []string
			for _, m := range found {
				resources = append(resources, strings.TrimSuffix(m[1]+"."+m[2], ".")+" ("+m[3]+")")
			}
			cause.Message = "these objects remain in it: " + nameList(resources)
		}
		cause.Advice = "wait, or look at the objects that are being deleted"
		cause.LateAdvice, cause.Since = "look at these objects with bongsu explain, which says what their deletion waits for", c.LastTransitionTime.Time
	case corev1.NamespaceFinalizersRemaining:
		if found := remainingBy.FindAllStringSubmatch(c.Message, -1); len(found) > 0 {
			var finalizers []string
			for _, m := range found {
				finalizers = append(finalizers, m[1]+" ("+m[2]+")")
			}
			cause.Message = "objects in it have these finalizers: " + nameList(finalizers)
		}
		cause.Advice = "check that the controllers that remove them are running; remove a finalizer yourself only if its controller no longer exists"
	case corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionGVParsingFailure:
	default:
		return nil
	}
	return cause
}

// apiServices returns the names of the APIServices whose discovery failed.
func apiServices(message string) []string {
	var names []string
	for _, m := range failedGroup.FindAllStringSubmatch(message, -1) {
		if name := m[2] + "." + m[1]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readRemaining names objects of the remaining types whose deletion waits for their
// finalizers.
func (q *inquiry) readRemaining(n *corev1.Namespace) {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == corev1.NamespaceContentRemaining })
	if i < 0 {
		return
	}
	for _, m := range remainingResource.FindAllStringSubmatch(n.Status.Conditions[i].Message, maxRemainingTypes) {
		q.readFinalizers(n.Name, schema.GroupResource{Group: m[2], Resource: m[1]})
	}
}

// readFinalizers adds causes for objects of a type. It reads only their metadata.
func (q *inquiry) readFinalizers(namespace string, resource schema.GroupResource) {
	kind, err := q.client.RESTMapper().KindFor(resource.WithVersion(""))
	if err != nil {
		q.unread(resource.String(), "", err)
		return
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := q.objects.List(q.ctx, &list, client.InNamespace(namespace), client.Limit(pageSize)); err != nil {
		q.unread(resource.String(), "list them", err)
		return
	}
	shown := 0
	for i := range list.Items {
		if o := &list.Items[i]; o.DeletionTimestamp != nil && len(o.Finalizers) > 0 && shown < maxRemainingObjects {
			q.workload.Known = append(q.workload.Known, finalizersCause(diagnosis.Object{Kind: kind.Kind, Name: o.Name}, o))
			q.next = append(q.next, newReference(kind.GroupKind(), namespace, o.Name, ", which remains in it,"))
			shown++
		}
	}
}

// remainingFinalizers adds a cause for finalizers of the namespace itself. The namespace
// controller removes its own when the namespace is empty.
func (q *inquiry) remainingFinalizers(n *corev1.Namespace) {
	var others []string
	for _, f := range n.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			others = append(others, string(f))
		}
	}
	if len(others) > 0 {
		q.workload.Known = append(q.workload.Known, diagnosis.Cause{
			Reason: diagnosis.ReasonFinalizersRemaining, Object: diagnosis.Object{Kind: "Namespace", Name: n.Name}, Time: n.DeletionTimestamp.Time, Transient: true,
			Message: "its spec.finalizers contains " + nameList(others),
			Advice:  "check that the controller that removes them is running",
		})
	}
	if len(q.workload.Known) == 0 && len(n.Finalizers) == 0 {
		q.fallback = &diagnosis.Cause{
			Reason: diagnosis.ReasonTerminating, Object: diagnosis.Object{Kind: "Namespace", Name: n.Name}, Time: n.DeletionTimestamp.Time, Transient: true,
			Message: fmt.Sprintf("its conditions show nothing that remains in namespace %q", n.Name),
			Advice:  "check that the controller manager is running",
		}
	}
}
