package secretshare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// Model predicts the copies of one rule. It does not predict the order of requests. It
// records all demands of the rule since the last check, and accepts every state that the
// operator can reach from there. The demand at the time of a check must be met.
type Model struct {
	Client client.Client
	// Rule is the name of the rule. A SecretShare is in Sources[0].
	Kind, Rule string
	// Sources are the namespaces of the sources, Targets those that may get copies.
	Sources, Targets []string
	// Unreadable reports that the operator cannot read the sources.
	Unreadable bool
	// Grace is spec.sourceDeletionGraceSeconds. Before a check, the copies of a deleted source must
	// have stayed that long.
	Grace int32

	slots   map[types.NamespacedName]*slot
	changes int
}

// secretNames are the Secrets that the rule may share.
var secretNames = []string{"first", "second"}

// slot is a place for a copy: its content at the last check, and all demands since.
type slot struct {
	start   occupant
	demands map[demand]struct{}
}

// occupant is the content of a slot: nothing, a copy, or a Secret that is not a copy.
type occupant struct {
	exists, isCopy bool
	// released means that it was a copy until the rule released it.
	released bool
	// edited means that another client than the operator has written its data.
	edited bool
	// source is NAMESPACE/NAME of the copy's source.
	source, sourceUID, data string
}

// action is what the rule demands for a slot.
type action string

const (
	ignore action = "ignore" // the rule is suspended
	remove action = "remove"
	keep   action = "keep" // the source cannot be copied
	write  action = "write"
)

type demand struct {
	action action
	// source and sourceUID are those of the copy. No UID means any.
	source, sourceUID, data string
	retain                  bool
}

// meet returns the content of a slot after the demand is met.
func (d demand) meet(o occupant) occupant {
	isTakenBack := d.action == write && o.released && !o.edited
	switch {
	case d.action == ignore, o.exists && !o.isCopy && !isTakenBack:
		return o
	case d.action == write:
		return occupant{exists: true, isCopy: true, source: d.source, sourceUID: d.sourceUID, data: d.data}
	case !o.exists:
		return o
	case d.action == keep && d.source == o.source && (d.sourceUID == "" || d.sourceUID == o.sourceUID):
		return o
	case d.retain:
		return occupant{exists: true, released: true, data: o.data, edited: o.edited}
	}
	return occupant{}
}

// reachable returns all possible contents of the slot after the last demand is met. unreadable means
// that the sources cannot be read.
func (s *slot) reachable(last demand, unreadable bool) map[occupant]struct{} {
	before := map[occupant]struct{}{s.start: {}}
	for n := 0; n < len(before); {
		n = len(before)
		for _, o := range slices.Collect(maps.Keys(before)) {
			for d := range s.demands {
				addMet(before, d.meet(o))
			}
		}
	}
	after := map[occupant]struct{}{}
	for o := range before {
		addMet(after, last.meet(o))
	}
	if unreadable && slices.ContainsFunc(slices.Collect(maps.Keys(s.demands)), func(d demand) bool { return d.action == write }) {
		// The operator knew the source before it became unreadable, and waits to write the copy.
		maps.Copy(after, before)
	}
	return after
}

// addMet adds the content of a slot. A copy can have been written over a field of another client.
func addMet(all map[occupant]struct{}, o occupant) {
	all[o] = struct{}{}
	if o.isCopy {
		o.edited = !o.edited
		all[o] = struct{}{}
	}
}

// state is the state of the API server that the model reads.
type state struct {
	rule    Object // nil if there is none
	secrets map[string]*corev1.Secret
	labels  map[string]map[string]string
	grants  map[string]v1alpha1.SecretShareGrantSpec
}

// Observe records the present demands. Call it after every change.
func (m *Model) Observe(ctx context.Context) error {
	now, err := m.read(ctx)
	if err != nil {
		return err
	}
	if m.slots == nil {
		m.slots = map[types.NamespacedName]*slot{}
	}
	for _, namespace := range m.Targets {
		for _, name := range secretNames {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			if m.slots[key] == nil {
				m.slots[key] = &slot{demands: map[demand]struct{}{}}
			}
			m.slots[key].demands[m.demandIn(now, key)] = struct{}{}
			// The operator may observe a change of the source later than a change of the
			// targets.
			m.slots[key].demands[m.demandOf(now, name)] = struct{}{}
		}
	}
	return nil
}

// Check compares all slots with the present demands.
func (m *Model) Check(ctx context.Context) error {
	now, err := m.read(ctx)
	if err != nil {
		return err
	}
	if now.rule != nil && !now.rule.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("the rule is being deleted and still exists")
	}
	var errs []string
	for key, s := range m.slots {
		got, err := m.occupant(ctx, key)
		if err != nil {
			return err
		}
		last := m.demandIn(now, key)
		if want := s.reachable(last, m.Unreadable); !contains(want, got) {
			errs = append(errs, fmt.Sprintf("%s: got %+v, demanded %+v, want one of %+v", key, got, last, slices.Collect(maps.Keys(want))))
		}
	}
	slices.Sort(errs)
	if errs != nil {
		return fmt.Errorf("%s", strings.Join(errs, "\n"))
	}
	return nil
}

// StartRound makes the present state the start of the next check.
func (m *Model) StartRound(ctx context.Context) error {
	for key, s := range m.slots {
		var err error
		if s.start, err = m.occupant(ctx, key); err != nil {
			return err
		}
		if !m.Unreadable { // the operator may still know what it read before
			clear(s.demands)
		}
	}
	return m.Observe(ctx)
}

func contains(set map[occupant]struct{}, o occupant) bool { _, ok := set[o]; return ok }

// demandIn returns the demand for a slot.
func (m *Model) demandIn(now state, key types.NamespacedName) demand {
	d := m.demandOf(now, key.Name)
	if d.action != ignore && now.rule != nil && !m.targets(now, key) {
		return demand{action: remove, retain: d.retain}
	}
	return d
}

// demandOf returns the demand for a Secret in all targets.
func (m *Model) demandOf(now state, name string) demand {
	if now.rule == nil {
		return demand{action: remove}
	}
	source, spec := now.rule.ClusterSource(), now.rule.CopySpec()
	ref := source.Namespace + "/" + name
	secret := now.secrets[ref]
	d := demand{action: remove, retain: spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain}
	switch {
	case !now.rule.GetDeletionTimestamp().IsZero():
	case spec.Suspend:
		d.action = ignore
	case len(source.Names) > 0 && !slices.Contains(source.Names, name):
	case !isValid(source.Selector), m.Unreadable:
		d.action, d.source = keep, ref
	case secret == nil, share.RuleOf(secret.Annotations) != "", !matches(source.Selector, secret.Labels):
	default:
		d.action, d.source, d.sourceUID = keep, ref, string(secret.UID)
		if data, ok := mapped(secret.Data, spec.Keys); ok && isValidTarget(spec.Targets, source.Namespace) {
			d.action, d.data = write, fmt.Sprint(data)
		}
	}
	return d
}

// isValidTarget reports whether the targets of a rule are valid.
func isValidTarget(t v1alpha1.SecretTargets, source string) bool {
	return isValid(t.NamespaceSelector) && !slices.Contains(t.Names, v1alpha1.NamespaceGlob(source))
}

// isValid reports whether a selector is valid. In these tests, only invalid selectors have
// expressions.
func isValid(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchExpressions) == 0 }

// matches reports whether labels may match a selector. An invalid selector may match any.
func matches(s *metav1.LabelSelector, labels map[string]string) bool {
	if s == nil || !isValid(s) {
		return true
	}
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// targets reports whether the rule and its grants want a copy in a slot.
func (m *Model) targets(now state, key types.NamespacedName) bool {
	t := now.rule.CopySpec().Targets
	namespace := v1alpha1.NamespaceGlob(key.Namespace)
	if slices.Contains(t.Exclude, namespace) || len(t.Names) > 0 && !slices.Contains(t.Names, namespace) ||
		!matches(t.NamespaceSelector, now.labels[key.Namespace]) {
		return false
	}
	if m.Kind == v1alpha1.KindClusterSecretShare {
		return true
	}
	grant, ok := now.grants[key.Namespace]
	return ok && (len(grant.To) == 0 || slices.Contains(grant.To, v1alpha1.SecretShareGrantTo{Name: key.Name}))
}

// mapped returns the data of a copy, if the source has all keys.
func mapped(data map[string][]byte, keys []v1alpha1.SecretKeyMapping) (map[string][]byte, bool) {
	if len(keys) == 0 {
		return data, true
	}
	found := map[string][]byte{}
	for _, key := range keys {
		value, ok := data[key.From]
		if !ok {
			return nil, false
		}
		found[key.To] = value
	}
	return found, true
}

// occupant reads the content of a slot.
func (m *Model) occupant(ctx context.Context, key types.NamespacedName) (occupant, error) {
	var secret corev1.Secret
	if err := m.Client.Get(ctx, key, &secret); err != nil {
		return occupant{}, client.IgnoreNotFound(err)
	}
	o := occupant{exists: true, data: fmt.Sprint(secret.Data), isCopy: share.RuleOf(secret.Annotations) != ""}
	o.released = secret.Annotations[share.AnnotationReleasedBy] != ""
	o.edited = slices.ContainsFunc(secret.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != share.FieldOwner && (strings.Contains(entry.FieldsV1.String(), `"f:data"`) || strings.Contains(entry.FieldsV1.String(), `"f:type"`))
	})
	if o.isCopy {
		o.source, o.sourceUID = secret.Annotations[share.AnnotationSource], secret.Annotations[share.AnnotationSourceUID]
	}
	return o, nil
}

func (m *Model) newRule() Object {
	name := metav1.ObjectMeta{Name: m.Rule}
	if m.Kind == v1alpha1.KindClusterSecretShare {
		return &v1alpha1.ClusterSecretShare{ObjectMeta: name}
	}
	name.Namespace = m.Sources[0]
	return &v1alpha1.SecretShare{ObjectMeta: name}
}

func (m *Model) read(ctx context.Context) (state, error) {
	now := state{
		rule: m.newRule(), secrets: map[string]*corev1.Secret{},
		labels: map[string]map[string]string{}, grants: map[string]v1alpha1.SecretShareGrantSpec{},
	}
	found, err := m.find(ctx, now.rule)
	if err != nil {
		return now, err
	}
	if !found {
		now.rule = nil
	}
	for _, namespace := range m.Sources {
		for _, name := range secretNames {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if found, err := m.find(ctx, secret); err != nil {
				return now, err
			} else if found {
				now.secrets[namespace+"/"+name] = secret
			}
		}
	}
	for _, name := range m.Targets {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := m.find(ctx, namespace); err != nil {
			return now, err
		}
		now.labels[name] = namespace.Labels
		grant := m.newGrant(name)
		if found, err := m.find(ctx, grant); err != nil {
			return now, err
		} else if found {
			now.grants[name] = grant.Spec
		}
	}
	return now, nil
}

func (m *Model) newGrant(namespace string) *v1alpha1.SecretShareGrant {
	return &v1alpha1.SecretShareGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Rule},
		Spec:       v1alpha1.SecretShareGrantSpec{From: []v1alpha1.SecretShareGrantFrom{{Namespace: m.Sources[0]}}},
	}
}

// find reads an object, and reports whether it exists.
func (m *Model) find(ctx context.Context, o client.Object) (bool, error) {
	err := m.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	return err == nil, client.IgnoreNotFound(err)
}
