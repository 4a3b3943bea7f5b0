package share

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// WhyRemoved returns why the plan does not keep a copy, as far as the plan knows. before is the last
// plan of the rule, or nil.
func (p *Plan) WhyRemoved(before *Plan, name types.NamespacedName, c Copied) string {
	t, isTarget := p.Targets[name.Namespace]
	switch {
	case p.Deleting:
		return "the rule is deleted"
	case c.Rule != p.Rule.UID:
		return "an earlier rule of the same name wrote them, and this rule wants no copies there"
	case isTarget && !t.Allows(name.Name), slices.Contains(p.Ungranted, name.Namespace):
		return "no SecretShareGrant allows them any more"
	case !isTarget && p.Rule.IsOfCluster():
		return "spec.targets does not select their namespaces"
	case !isTarget:
		return "spec.targets does not select their namespaces, or these have no SecretShareGrant"
	}
	if before != nil {
		if source, ok := before.deleted[c.SourceUID]; ok {
			return fmt.Sprintf("Secret %s was deleted", source.name)
		}
	}
	return p.whyNotCopied(c)
}

// whyNotCopied returns why the source of a copy is not copied, or not under this name.
func (p *Plan) whyNotCopied(c Copied) string {
	source, ok := strings.CutPrefix(c.Source, p.Rule.Namespace+"/")
	if !ok || len(validation.IsDNS1123Subdomain(source)) > 0 { // a user can write the annotation
		return "spec.source does not select their source"
	}
	switch {
	case !p.Rule.AllowsName(source):
		return fmt.Sprintf("spec.source does not select Secret %s", source)
	case p.Versions[source] != "":
		return fmt.Sprintf("the rule does not copy Secret %s under these names", source)
	}
	return fmt.Sprintf("Secret %s does not exist, or spec.source does not select it", source)
}

// maxCauses limits how many causes an Event about removed copies names.
const maxCauses = 5

// RemovalNote describes a batch of copies that the rule removes, by the number of copies for each
// cause.
func (r *Rule) RemovalNote(removals map[string]int) string {
	causes := make([]string, 0, len(removals))
	total := 0
	for cause, n := range removals {
		causes = append(causes, cause)
		total += n
	}
	slices.SortFunc(causes, func(a, b string) int { return cmp.Or(cmp.Compare(removals[b], removals[a]), cmp.Compare(a, b)) })
	verb := "Deleting"
	if r.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
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
