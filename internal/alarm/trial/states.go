package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

const (
	// maxStateObjects limits the objects of a resource that are evaluated.
	maxStateObjects = 5_000
	// maxStateNames is the number of objects that a note names.
	maxStateNames = 5
)

// checkStates adds a note for each state of the alarm: for which objects it is true now.
func (t *test) checkStates(ctx context.Context, a *Alarm, report *AlarmReport) {
	for i, s := range a.compiled.States() {
		field := fmt.Sprintf("spec.states[%d]", i)
		if t.served.IsKnown() && t.served.Status(s.Resource).Reason != "" {
			continue // checkResources says so
		}
		result, more, err := t.stateNow(ctx, a, s)
		switch text := result.text(s); {
		case err != nil:
			report.addUnlisted(field, s.Resource, err)
		case more:
			report.Notes = append(report.Notes, fmt.Sprintf("%s: %s. Only the first %d objects were evaluated", field, text, maxStateObjects))
		default:
			report.Notes = append(report.Notes, field+": "+text)
		}
	}
}

// addUnlisted reports that the objects of a resource cannot be listed. checkResources reports
// resources that do not exist.
func (a *AlarmReport) addUnlisted(field string, resource alarm.Resource, err error) {
	switch {
	case meta.IsNoMatchError(err):
	case apierrors.IsForbidden(err):
		a.Problems = append(a.Problems, fmt.Sprintf("%s: you may not list %s, which the author of an alarm on it must be allowed to: ask an administrator for this permission", field, resource.Stream()))
	default:
		a.Notes = append(a.Notes, fmt.Sprintf("%s: list %s: %v", field, resource.Stream(), err))
	}
}

// stateNow returns for which objects a state is true now. more is true if there are too many.
func (t *test) stateNow(ctx context.Context, a *Alarm, s *match.State) (result stateResult, more bool, err error) {
	more, err = t.eachObject(ctx, a.ID().Namespace, s.Resource, func(object map[string]any) {
		known := t.enricher.Context(ctx, &alarm.Event{})
		known.Object, known.Resolved, known.ObjectUnread = alarm.Describe(object), true, ""
		holds, err := s.Holds(ctx, object, &known, t.reader, t.Now, nil)
		var lasts time.Duration
		if since := s.HoldsSince(object); !since.IsZero() {
			lasts = t.Now.Sub(since).Truncate(time.Second)
		}
		if s.Selects(&known, t.reader) {
			result.selected++
		}
		result.add(&known.Object.Metadata, holds, lasts, err)
	})
	return result, more, err
}

// stateResult is the result of a state for all objects.
type stateResult struct {
	objects, selected, holding, unknown int
	names                               []string
	failure                             error
}

// add adds the result for an object. lasts is how long the state has lasted at least, or 0.
func (r *stateResult) add(object *alarm.ObjectMeta, holds match.Truth, lasts time.Duration, err error) {
	r.objects++
	if err != nil {
		r.failure = err
	}
	switch holds {
	case match.Yes:
		if r.holding++; r.holding <= maxStateNames {
			name := strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")
			if lasts > 0 {
				name += fmt.Sprintf(" (for %v at least)", lasts)
			}
			r.names = append(r.names, name)
		}
	case match.Unknown:
		r.unknown++
	case match.No:
	}
}

func (r *stateResult) text(s *match.State) string {
	text := fmt.Sprintf("true now for %d of %d %s", r.holding, r.objects, s.Resource.Stream())
	if r.holding > 0 {
		text += ": " + strings.Join(r.names, ", ")
	}
	if r.holding > maxStateNames {
		text += " and others"
	}
	if r.objects > 0 && r.selected == 0 {
		text += ". names, objectSelector and namespaceSelector select none of them"
	}
	if r.holding > 0 && s.For > 0 {
		text += fmt.Sprintf(". They are reported if this lasts for %v", s.For)
	}
	if r.unknown > 0 {
		text += fmt.Sprintf(". Unknown for %d", r.unknown)
	}
	if r.failure != nil {
		text += fmt.Sprintf(". The expression fails for some: %v", r.failure)
	}
	return text
}

// eachObject calls do with the objects of a resource in a namespace, or in all. An Alarm sees none
// that have no namespace. It reads only the metadata of Secrets. more is true if there are too many.
func (e *Environment) eachObject(ctx context.Context, namespace string, resource alarm.Resource, do func(object map[string]any)) (more bool, err error) {
	kind, namespaced, err := servedAs(e.Client.RESTMapper(), resource)
	if err != nil || namespace != "" && !namespaced {
		return false, err
	}
	for n, page := 0, ""; ; {
		list, next, err := e.listPage(ctx, kind, namespace, page)
		if err != nil {
			return false, err
		}
		for _, object := range list {
			do(object)
		}
		if n, page = n+len(list), next; page == "" || n >= maxStateObjects {
			return page != "", nil
		}
	}
}

func (e *Environment) listPage(ctx context.Context, kind schema.GroupVersionKind, namespace, page string) (objects []map[string]any, next string, err error) {
	options := []client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(page)}
	kind.Kind += "List"
	if kind.Group == "" && kind.Kind == "SecretList" {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind)
		err = e.Client.List(ctx, &list, options...)
		for i := 0; i < len(list.Items) && err == nil; i++ {
			var object map[string]any
			object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
			objects = append(objects, object)
		}
		return objects, list.Continue, err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind)
	err = e.Client.List(ctx, &list, options...)
	for i := range list.Items {
		objects = append(objects, list.Items[i].Object)
	}
	return objects, list.GetContinue(), err
}
