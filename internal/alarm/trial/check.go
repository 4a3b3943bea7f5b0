package trial

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
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/spelling"
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
			report.Notes = append(report.Notes, fmt.Sprintf("it is unknown whether %s can be used: %v", key.Display(), err))
		case err != nil:
			return nil, err
		default:
			found[key.String()] = object
			ready := meta.FindStatusCondition(object.AlarmStatus().Conditions, v1alpha1.ConditionReady)
			if ready != nil && ready.Status == metav1.ConditionFalse {
				report.Problems = append(report.Problems, fmt.Sprintf("%s is not ready (%s): %s", key.Display(), ready.Reason, ready.Message))
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
		t.served = objects.NewServed(groups, lists, failed)
	}
}

// checkWords reports kinds that the alarm cannot match, and words that probably match nothing.
func (t *test) checkWords(a *Alarm, report *AlarmReport) {
	for _, problem := range match.CheckKinds(a.Kind, a.Object, t.served) {
		report.Problems = append(report.Problems, problem.Error())
	}
	report.Problems = append(report.Problems, match.MisspeltKinds(a.Object, t.served)...)
	report.Notes = append(report.Notes, match.UnreadKinds(a.Object, t.reads(a))...)
	report.Notes = append(report.Notes, match.Hints(a.Object)...)
}

// reads returns a function that reports whether objects of a kind are read for an alarm.
func (t *test) reads(a *Alarm) func(kind string) bool {
	return func(kind string) bool {
		return enrich.Reads(kind) || slices.ContainsFunc(a.compiled.ReadObjects(), func(r alarm.Resource) bool {
			served, _ := t.reader.Lookup(r)
			return served.Kind == kind
		})
	}
}

// meant returns what the user probably meant by a word, as the end of a sentence.
func meant(word string, known []string) string {
	if similar := spelling.Similar(word, known); similar != "" {
		return ": did you mean " + similar
	}
	return ""
}

// checkNamespaces reports globs or a selector that select no namespace, and a label in
// receiversFrom that no namespace has.
func (t *test) checkNamespaces(ctx context.Context, a *Alarm, report *AlarmReport) {
	spec, globs, from := a.Object.NamespaceSelector(), a.Object.NamespaceGlobs(), a.Object.ReceiverChoice()
	selector, err := metav1.LabelSelectorAsSelector(spec)
	if spec == nil && len(globs) == 0 && from == nil || err != nil {
		return
	}
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(metadataOf("NamespaceList").GroupVersionKind())
	if t.reader.note(t.Client.List(ctx, &namespaces)) != nil {
		return
	}
	values, selected, named := map[string][]string{}, false, false
	for i := range namespaces.Items {
		set := namespaces.Items[i].Labels
		selected = selected || selector.Matches(labels.Set(set))
		named = named || match.AcceptsName(globs, namespaces.Items[i].Name)
		for key, value := range set {
			values[key] = append(values[key], value)
		}
	}
	if spec != nil && !selected {
		report.Notes = append(report.Notes, "spec.namespaceSelector selects no namespace"+selectorHint(selector, values))
	}
	if !named {
		report.Notes = append(report.Notes, "spec.namespaces selects no namespace")
	}
	if from != nil && values[from.NamespaceLabel] == nil {
		report.Notes = append(report.Notes, "spec.receiversFrom: "+noLabel(from.NamespaceLabel, values)+": all messages go to the default")
	}
}

// noLabel says that no namespace has a label. values are the values of each label that they have.
func noLabel(key string, values map[string][]string) string {
	return fmt.Sprintf("no namespace has the label %s%s", key, meant(key, slices.Sorted(maps.Keys(values))))
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
			return ": " + noLabel(r.Key(), values)
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
