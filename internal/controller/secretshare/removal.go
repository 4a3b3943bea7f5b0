package secretshare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// A plan that removes copies is announced by one Event, however many copies it removes.

// maxCauses limits how many causes an Event about removed copies names.
const maxCauses = 5

// addRemovals adds the copies that the plan of a rule removes, by cause. It does not add those that
// the plan before also removed. before is nil if there was none. The caller holds s.mu.
func (s *store) addRemovals(state *ruleState, before *plan) {
	p := state.plan
	if !s.synced {
		return // the first list of all Secrets calls it again
	}
	for namespace := range s.namespacesWith(p.rule) {
		if _, terminating := p.terminating[namespace]; terminating || p.rule.Protects(namespace) {
			continue
		}
		for name, c := range s.copiesIn(p.rule, namespace) {
			if p.keeps(name, c) || before != nil && !before.keeps(name, c) {
				continue
			}
			if state.removals == nil {
				state.removals = map[string]int{}
			}
			state.removals[p.whyRemoved(before, name, c)]++
		}
	}
}

// takeRemovals returns the number of copies that were not announced yet, by cause.
func (s *store) takeRemovals(key kube.Key) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.rules[key]
	if !ok {
		return nil
	}
	removals := state.removals
	state.removals = nil
	return removals
}

// whyRemoved returns why the plan does not keep a copy, as far as the plan knows.
func (p *plan) whyRemoved(before *plan, name types.NamespacedName, c copyState) string {
	t, isTarget := p.targets[name.Namespace]
	switch {
	case p.deleting:
		return "the rule is deleted"
	case c.rule != p.rule.UID:
		return "an earlier rule of the same name wrote them, and this rule wants no copies there"
	case isTarget && !t.allows(name.Name), slices.Contains(p.ungranted, name.Namespace):
		return "no SecretShareGrant allows them any more"
	case !isTarget && p.rule.IsOfCluster():
		return "spec.targets does not select their namespaces"
	case !isTarget:
		return "spec.targets does not select their namespaces, or these have no SecretShareGrant"
	}
	if before != nil {
		if source, ok := before.deleted[c.sourceUID]; ok {
			return fmt.Sprintf("Secret %s was deleted", source.name)
		}
	}
	return p.whyNotCopied(c)
}

// whyNotCopied returns why the source of a copy is not copied, or not under this name.
func (p *plan) whyNotCopied(c copyState) string {
	source, ok := strings.CutPrefix(c.source, p.rule.Namespace+"/")
	if !ok || len(validation.IsDNS1123Subdomain(source)) > 0 { // a user can write the annotation
		return "spec.source does not select their source"
	}
	switch {
	case !p.rule.AllowsName(source):
		return fmt.Sprintf("spec.source does not select Secret %s", source)
	case p.versions[source] != "":
		return fmt.Sprintf("the rule does not copy Secret %s under these names", source)
	}
	return fmt.Sprintf("Secret %s does not exist, or spec.source does not select it", source)
}

// announceRemovals emits an Event on a rule about the copies that its plan removes.
func (r *Reconciler) announceRemovals(ctx context.Context, key kube.Key, object Object) {
	removals := r.store.takeRemovals(key)
	if len(removals) == 0 {
		return
	}
	note := removalNote(removals, object.CopySpec().DeletionPolicy == v1alpha1.DeletionPolicyRetain)
	err := r.writer.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRemovingCopies, Action: "Remove", Note: note, Identity: note, Since: r.clock.Now(),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to emit the Event about removed copies", "rule", key, "removed", note)
	}
}

// removalNote describes a batch of copies that are deleted or released.
func removalNote(removals map[string]int, released bool) string {
	causes := make([]string, 0, len(removals))
	total := 0
	for cause, n := range removals {
		causes = append(causes, cause)
		total += n
	}
	slices.SortFunc(causes, func(a, b string) int { return cmp.Or(cmp.Compare(removals[b], removals[a]), cmp.Compare(a, b)) })
	verb := "Deleting"
	if released {
		verb = "Releasing"
	}
	if len(causes) == 1 {
		return fmt.Sprintf("%s %s: %s", verb, countOfCopies(total), causes[0])
	}
	var parts []string
	rest := total
	for _, cause := range causes[:min(len(causes), maxCauses)] {
		rest -= removals[cause]
		parts = append(parts, fmt.Sprintf("%d because %s", removals[cause], cause))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d for other reasons", rest))
	}
	return fmt.Sprintf("%s %s: %s", verb, countOfCopies(total), strings.Join(parts, "; "))
}

func countOfCopies(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}
