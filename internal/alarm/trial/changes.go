package trial

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Comparison contains objects before and after a change.
type Comparison struct {
	Old, New []*unstructured.Unstructured
	// Namespace is for objects that should have one and do not.
	Namespace string
}

// ReadObjects reads objects of any kind from YAML or JSON, also those in lists.
func ReadObjects(in io.Reader) ([]*unstructured.Unstructured, error) {
	read, err := config.Decode(in)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, o := range read {
		if !o.IsList() {
			all = append(all, o)
			continue
		}
		err := o.EachListItem(func(item runtime.Object) error {
			all = append(all, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, o := range all {
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("object %q: apiVersion, kind or metadata.name is missing", plaintext.Line(o.GetName()))
		}
		if err := withWholeNumbers(o); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// withWholeNumbers makes the whole numbers of an object integers, as in objects of the API.
func withWholeNumbers(o *unstructured.Unstructured) error {
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return o.UnmarshalJSON(text)
}

// pair is an object before and after a change. One of the states is nil if the object did not
// exist.
type pair struct {
	mapping  *meta.RESTMapping
	old, new *unstructured.Unstructured
	// occ is the change, nil if the alarm does not name the resource.
	occ *alarm.Occurrence
}

// pairs returns the objects of both files, in the order of their names.
func (e *Environment) pairs() ([]*pair, error) {
	byKey := map[string]*pair{}
	add := func(o *unstructured.Unstructured, set func(*pair)) error {
		kind := o.GroupVersionKind()
		mapping, err := e.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case meta.IsNoMatchError(err):
			return fmt.Errorf("the cluster has no kind %s of %s: correct it, or install its CRD", kind.Kind, kind.GroupVersion())
		case err != nil:
			return err
		case mapping.Scope.Name() == meta.RESTScopeNameRoot:
			o.SetNamespace("")
		case o.GetNamespace() == "":
			o.SetNamespace(e.Comparison.Namespace)
		}
		key := strings.Join([]string{mapping.Resource.Resource, mapping.Resource.Group, o.GetNamespace(), o.GetName()}, "/")
		if byKey[key] == nil {
			byKey[key] = &pair{mapping: mapping}
		}
		set(byKey[key])
		return nil
	}
	for _, o := range e.Comparison.Old {
		if err := add(o, func(p *pair) { p.old = o }); err != nil {
			return nil, fmt.Errorf("old: %w", err)
		}
	}
	for _, o := range e.Comparison.New {
		if err := add(o, func(p *pair) { p.new = o }); err != nil {
			return nil, fmt.Errorf("new: %w", err)
		}
	}
	var all []*pair
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, byKey[key])
	}
	return all, nil
}

// compare evaluates the changes between two files. It adds a note about each object for which
// there is no message.
func (t *test) compare(ctx context.Context, a *Alarm, report *AlarmReport, labels []string) error {
	pairs, err := t.pairs()
	if err != nil {
		return err
	}
	report.Compared = true
	if len(a.Object.AlarmSpec().Changes) == 0 {
		report.Notes = append(report.Notes, "the alarm has no spec.changes, so the files are not compared: test spec.match and spec.states without --old and --new")
		return nil
	}
	var changes []alarm.Occurrence
	for _, p := range pairs {
		resource := alarm.Resource{Group: p.mapping.Resource.Group, Version: p.mapping.Resource.Version, Resource: p.mapping.Resource.Resource}
		shape, named := a.compiled.Needs()[alarm.Resource{Group: resource.Group, Resource: resource.Resource}]
		if !named {
			report.Notes = append(report.Notes, fmt.Sprintf("%s: spec.changes does not name %s", p.name(), resource.Stream()))
			continue
		}
		before, after := content(p.old), content(p.new)
		occ, changed, err := objects.Compare(resource, p.mapping.GroupVersionKind, before, after, shape, t.Now)
		if err != nil {
			return fmt.Errorf("compare %s: %w", p.name(), err)
		}
		occ.Position = uint64(len(changes) + 1)
		if p.occ = &occ; changed {
			changes = append(changes, occ)
		}
	}
	result, err := t.run(ctx, a, changes, t.reader, t.enricher, labels...)
	if err != nil {
		return err
	}
	report.Events = len(pairs)
	report.addResult(result)
	t.addUnmatched(ctx, a, pairs, report)
	return nil
}

func content(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}

func (p *pair) object() *unstructured.Unstructured {
	if p.new != nil {
		return p.new
	}
	return p.old
}

func (p *pair) name() string {
	o := p.object()
	return objectOf(alarm.Reference{Kind: p.mapping.GroupVersionKind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()})
}

// addUnmatched adds a note about each object whose change the alarm does not match: how it
// differs, and which conditions are not met. The alarm must name the resource.
func (t *test) addUnmatched(ctx context.Context, a *Alarm, pairs []*pair, report *AlarmReport) {
	for _, p := range pairs {
		matched := slices.ContainsFunc(report.Matches, func(m Match) bool {
			ref := m.Regarding
			return objectOf(alarm.Reference{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}) == p.name()
		})
		if matched || p.occ == nil {
			continue
		}
		known := t.enricher.Context(ctx, &alarm.Event{})
		known.Object, known.Resolved, known.ObjectUnread = p.occ.Change.Describe(), true, ""
		var failed []string
		for _, miss := range a.compiled.ChangeMisses(ctx, p.occ, t.reader, &known) {
			failed = append(failed, explainMiss(&miss))
		}
		if len(failed) == 0 {
			failed = []string{"no entry of spec.changes matches this"}
		}
		report.Notes = append(report.Notes, p.name()+" "+p.difference()+": "+strings.Join(failed, "; "))
	}
}

// explainMiss says why a change does not meet a condition.
func explainMiss(miss *match.NearMiss) string {
	switch path.Ext(miss.Field) {
	case ".operations":
		return miss.Field + " does not contain " + miss.Value
	case ".names":
		return miss.Field + " does not match " + miss.Value
	case ".fields":
		return "no difference in " + miss.Field + " (" + miss.Value + ")"
	case ".expression":
		return miss.Field + " is false"
	case ".namespace":
		return "the alarm sees only objects of its own namespace"
	default: // selectors
		return miss.Field + " does not select it"
	}
}

// maxShown is the number of differences that are looked for.
const maxShown = 20

// difference says how the object differs. The values of Secrets are never shown.
func (p *pair) difference() string {
	switch {
	case p.old == nil:
		return "is created"
	case p.new == nil:
		return "is deleted"
	}
	if isSecret := p.mapping.Resource.GroupResource().String() == "secrets"; isSecret {
		return "differs"
	}
	found, more := fields.Differences(p.old.Object, p.new.Object, []fields.Path{fields.DefaultPath(), fields.Join("metadata", "labels"), fields.Join("metadata", "annotations"), fields.Join("status")}, maxShown)
	if len(found) == 0 {
		return "does not differ"
	}
	return "differs (" + fields.Describe(found, more) + ")"
}
