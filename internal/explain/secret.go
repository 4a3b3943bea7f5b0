package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// secrets are explained one by one only: an overview does not read them.
var secrets = schema.GroupResource{Resource: "secrets"}

// secret explains which rules copy a Secret, and why others do not. It shows no values.
func (q *inquiry) secret() error {
	q.explanation.passive = true
	s := &corev1.Secret{}
	if readable, err := q.targetOf(kindSecret, s); !readable {
		if apierrors.IsNotFound(err) {
			q.notFound = err
			q.missingCopy()
			return nil
		}
		return err
	}
	switch {
	case s.DeletionTimestamp != nil:
		q.set(kindSecret, Stopped, "it is being deleted")
	case share.RuleOf(s.Annotations) != "":
		q.set(kindSecret, Running, fmt.Sprintf("it is a copy of %s, which %s writes", share.Printable(s, share.AnnotationSource), share.Printable(s, share.AnnotationRule)))
	default:
		if owner := metav1.GetControllerOfNoCopy(s); owner != nil {
			q.next = append(q.next, newReference(kindOfOwner(owner), s.Namespace, owner.Name, ", which keeps it up to date,"))
		}
		q.set(kindSecret, Running, strings.Join(append([]string{"it exists"}, q.sharing(s)...), "; "))
	}
	return nil
}

// sharing says which rules select a Secret, and which nearly do.
func (q *inquiry) sharing(s *corev1.Secret) []string {
	var found []string
	for _, rule := range q.shareRules() {
		if rule.Namespace != q.namespace || !rule.AllowsName(s.Name) {
			continue
		}
		if why := rule.WhyNotSelected(s); why != "" {
			found = append(found, shortLine(fmt.Sprintf("%s does not copy it: it %s", rule.Name, why)))
		} else if rule.Selects(s) {
			found = append(found, rule.Name+" selects it")
		}
	}
	return found
}

// missingCopy adds the rules that copy a Secret under this name, but not to this namespace.
func (q *inquiry) missingCopy() {
	rules := q.shareRules()
	if len(rules) == 0 {
		return
	}
	var ns corev1.Namespace
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: q.namespace}, &ns); err != nil {
		q.unread("namespaces", "get them", err)
		return
	}
	for _, rule := range rules {
		why := rule.WhyNotTarget(q.namespace, labels.Set(ns.Labels))
		for _, name := range rule.Source.Names {
			if why != "" && rule.CopyName(name) == q.name {
				q.workload.Known = append(q.workload.Known, diagnosis.Cause{
					Reason: v1alpha1.ReasonTargetNotFound, Object: diagnosis.Object{Kind: kindSecret, Name: q.name},
					Message: fmt.Sprintf("%s copies Secret %s/%s under this name, but not here: %s", rule.Name, rule.Namespace, name, why),
					Advice:  "correct spec.targets, or copy the Secret with another rule",
				})
			}
		}
	}
	if len(q.workload.Known) > 0 {
		q.set(kindSecret, Waiting, "it does not exist")
	}
}

// shareRules returns the ClusterSecretShares, and the SecretShares of the namespace.
func (q *inquiry) shareRules() []*share.Rule {
	var rules []*share.Rule
	group := func(kind string) schema.GroupKind { return schema.GroupKind{Group: v1alpha1.Group, Kind: kind} }
	for _, o := range slices.Concat(q.listIn("", group(v1alpha1.KindClusterSecretShare)), q.listOf(group(v1alpha1.KindSecretShare))) {
		rule, _ := share.Compile(definitionOf(o)) // an invalid selector matches everything
		rules = append(rules, rule)
	}
	return rules
}

func definitionOf(o client.Object) share.Definition {
	switch o := o.(type) {
	case *v1alpha1.ClusterSecretShare:
		source := o.ClusterSource()
		return share.Definition{
			Name: v1alpha1.KindClusterSecretShare + "/" + o.Name, Namespace: source.Namespace, Source: source.SecretSource, Spec: *o.CopySpec(),
		}
	case *v1alpha1.SecretShare:
		return share.Definition{
			Name: v1alpha1.KindSecretShare + "/" + o.Namespace + "/" + o.Name, Namespace: o.Namespace, Source: o.Spec.Source, Spec: *o.CopySpec(),
		}
	}
	return share.Definition{}
}
