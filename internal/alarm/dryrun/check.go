package dryrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// missingError says that a receiver does not exist.
type missingError string

// Error returns the text.
func (e missingError) Error() string { return string(e) }

// checkReceivers reports receivers that do not exist, that do not allow the alarm, or that
// are not ready. It returns those that can be used, by their keys.
func (t *test) checkReceivers(ctx context.Context, a *Alarm, report *AlarmReport) (map[string]receiver.Object, error) {
	found := map[string]receiver.Object{}
	keys := a.receiverKeys()
	if from := a.Object.ReceiverChoice(); from != nil {
		keys = append(keys, kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: from.Default.Name})
	}
	for _, key := range keys {
		object, err := t.receiver(ctx, a, key, "correct spec.receivers")
		_, missing := errors.AsType[missingError](err)
		_, refused := errors.AsType[*receiver.ConfigError](err)
		switch {
		case missing, refused:
			report.Problems = append(report.Problems, err.Error())
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			report.Notes = append(report.Notes, fmt.Sprintf("it is unknown whether %s can be used: %v", displayName(key), err))
		case err != nil:
			return nil, err
		default:
			found[key.String()] = object
			if t.inFile(key) != nil {
				report.Notes = append(report.Notes, fmt.Sprintf("%s is taken from the file: apply both", displayName(key)))
			}
			ready := meta.FindStatusCondition(object.AlarmStatus().Conditions, v1alpha1.ConditionReady)
			if ready != nil && ready.Status == metav1.ConditionFalse {
				report.Problems = append(report.Problems, fmt.Sprintf("%s is not ready (%s): %s", displayName(key), ready.Reason, ready.Message))
			}
		}
	}
	return found, nil
}

// Discovery lists the resources of a cluster.
type Discovery interface {
	ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

// readServed lists the resources of the cluster. Aggregated APIs can be down, so that the list is
// not complete.
func (t *test) readServed() {
	groups, lists, err := t.Discovery.ServerGroupsAndResources()
	if err != nil {
		t.notes = append(t.notes, fmt.Sprintf("the API server did not list all kinds: the test cannot find kinds that do not exist: %v", err))
	}
	if failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err); err == nil || partly {
		t.served = new(objects.NewServed(groups, lists, failed))
	}
}

// checkKinds reports kinds that the alarm cannot match, and kinds that do not exist.
func (t *test) checkKinds(a *Alarm, report *AlarmReport) {
	if t.served == nil {
		return
	}
	for _, problem := range match.CheckKinds(a.Kind, a.Object, t.served.ClusterScoped) {
		report.Problems = append(report.Problems, problem.Error())
	}
	known, complete := t.served.Kinds()
	for i, m := range a.Object.AlarmSpec().Match {
		for _, kind := range m.Kinds {
			if _, exists := slices.BinarySearch(known, kind); !exists && complete {
				report.Notes = append(report.Notes, fmt.Sprintf("spec.match[%d].kinds: the cluster has no kind %s%s", i, kind, meant(kind, known)))
			}
		}
	}
}

// reasonHints are words that users know from the status of containers, and that no component of
// Kubernetes uses as the reason of an Event.
var reasonHints = map[string]string{
	"OOMKilled":        "match BackOff, and use object.cause to tell why the container ended",
	"CrashLoopBackOff": "match BackOff",
	"ImagePullBackOff": "match BackOff or Failed",
	"ErrImagePull":     "match Failed",
	"NotReady":         "match NodeNotReady",
}

// checkWords reports words in spec.match that probably match nothing, although they are valid.
func checkWords(a *Alarm, report *AlarmReport) {
	for i, m := range a.Object.AlarmSpec().Match {
		for _, reason := range m.Reasons {
			if hint, known := reasonHints[reason]; known {
				report.Notes = append(report.Notes, fmt.Sprintf("spec.match[%d].reasons: Kubernetes emits no Event with the reason %s: %s", i, reason, hint))
			}
			if strings.ContainsAny(reason, "*?") {
				report.Notes = append(report.Notes, fmt.Sprintf("spec.match[%d].reasons: %q is no glob: write each reason in full", i, reason))
			}
		}
		if slices.Equal(m.Kinds, []string{"Node"}) && slices.Equal(m.Types, []v1alpha1.EventType{v1alpha1.EventTypeWarning}) {
			report.Notes = append(report.Notes, fmt.Sprintf("spec.match[%d].types: NodeNotReady and most other Events about Nodes are Normal: leave types out", i))
		}
	}
}

// meant returns what the user probably meant by a word, as the end of a sentence.
func meant(word string, known []string) string {
	if similar := match.Similar(word, known); similar != "" {
		return ": did you mean " + similar
	}
	return ""
}

// checkNamespaces reports a namespaceSelector that selects no namespace.
func (t *test) checkNamespaces(ctx context.Context, a *Alarm, report *AlarmReport) {
	spec := a.Object.NamespaceSelector()
	selector, err := metav1.LabelSelectorAsSelector(spec)
	if spec == nil || err != nil {
		return
	}
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(metadataOf("NamespaceList").GroupVersionKind())
	if t.reader.note(t.Client.List(ctx, &namespaces)) != nil {
		return
	}
	values := map[string][]string{}
	for i := range namespaces.Items {
		set := namespaces.Items[i].Labels
		if selector.Matches(labels.Set(set)) {
			return
		}
		for key, value := range set {
			values[key] = append(values[key], value)
		}
	}
	report.Notes = append(report.Notes, "spec.namespaceSelector selects no namespace"+selectorHint(selector, values))
}

// maxHintValues is the number of values of a label that a hint names.
const maxHintValues = 5

// selectorHint says which label of a selector no namespace has. values are the values of each
// label that namespaces have.
func selectorHint(selector labels.Selector, values map[string][]string) string {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		present, known := values[r.Key()]
		if !known && r.Matches(labels.Set{}) {
			continue
		}
		if !known {
			return fmt.Sprintf(": no namespace has the label %s%s", r.Key(), meant(r.Key(), slices.Sorted(maps.Keys(values))))
		}
		if slices.ContainsFunc(present, func(value string) bool { return r.Matches(labels.Set{r.Key(): value}) }) {
			continue
		}
		slices.Sort(present)
		present = slices.Compact(present)
		more := ""
		if n := len(present) - maxHintValues; n > 0 {
			present, more = present[:maxHintValues], fmt.Sprintf(" and %d more", n)
		}
		return fmt.Sprintf(": the label %s of namespaces has the values %s%s", r.Key(), strings.Join(present, ", "), more)
	}
	return ""
}
