package share

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
)

func TestRulesShareACopyOnlyIfTheyMakeTheSame(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Definition)
		want   bool
	}{
		"another name":              {func(d *Definition) { d.Name, d.UID = "SecretShare/vault/ca2", "2" }, true},
		"another policy":            {func(d *Definition) { d.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }, true},
		"empty lists":               {func(d *Definition) { d.Spec.CopyLabels = []v1alpha1.MetadataGlob{} }, true},
		"other keys":                {func(d *Definition) { d.Spec.Keys = []v1alpha1.SecretKeyMapping{{From: "a"}} }, false},
		"other labels":              {func(d *Definition) { d.Spec.CopyLabels = []v1alpha1.MetadataGlob{"team"} }, false},
		"other annotations":         {func(d *Definition) { d.Spec.CopyAnnotations = []v1alpha1.MetadataGlob{"note"} }, false},
		"another namespace":         {func(d *Definition) { d.Namespace = "elsewhere" }, false},
		"a namespace created again": {func(d *Definition) { d.NamespaceUID = "2" }, false},
		"an unknown namespace":      {func(d *Definition) { d.NamespaceUID = "" }, false},
		"another kind":              {func(d *Definition) { d.Name = "ClusterSecretShare/ca" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			def := Definition{UID: "1", Name: "SecretShare/vault/ca", Namespace: "vault", NamespaceUID: "1"}
			first, _ := Compile(def)
			tc.change(&def)
			second, _ := Compile(def)
			copied := types.NamespacedName{Namespace: "shop", Name: "ca"}
			for _, rules := range [][2]*Rule{{first, second}, {second, first}} {
				p := &Plan{Rule: rules[0], Sources: Sources{Wanted: map[string]Wanted{"ca": {SourceUID: "source"}}}}
				p.Targets = map[string]Target{"shop": {}, "closed": {names: []glob.Pattern{"other"}}}
				if got := p.WantsLike(rules[1], copied, "source"); got != tc.want {
					t.Errorf("got %t, want %t", got, tc.want)
				}
				for what, other := range map[string]types.NamespacedName{
					"another name":      {Namespace: "shop", Name: "other"},
					"another namespace": {Namespace: "elsewhere", Name: "ca"},
					"without a grant":   {Namespace: "closed", Name: "ca"},
				} {
					if p.WantsLike(rules[1], other, "source") {
						t.Errorf("%s: it wants the copy", what)
					}
				}
				if p.WantsLike(rules[1], copied, "a former source") {
					t.Error("it wants a copy of a former source")
				}
			}
		})
	}
}

func TestACopyThatItsRuleLeavesIsUpdated(t *testing.T) {
	former, next := compile(t, v1alpha1.SecretCopySpec{}), compile(t, v1alpha1.SecretCopySpec{})
	next.UID, next.Name = "next", "ClusterSecretShare/next"
	live, _ := former.Copy(source())
	want, _ := next.Copy(source())
	if got := CompareLeft(live, want); got != Update || live.Annotations[AnnotationRuleUID] != former.UID {
		t.Errorf("got %v, with the rule %s", got, live.Annotations[AnnotationRuleUID])
	}
	if merged := Merge(live, want); Compare(merged, want) != Keep || merged.Labels[LabelRuleUID] != "next" {
		t.Errorf("after the merge: %v %v", merged.Labels, merged.Annotations)
	}
	live.Immutable, live.Data = new(true), map[string][]byte{"a": []byte("former")}
	if got := CompareLeft(live, want); got != Replace {
		t.Errorf("an immutable copy with other data: got %v", got)
	}
}

func TestTheOlderRuleIsFirst(t *testing.T) {
	now := time.Now()
	plan := func(since time.Time, uid string) *Plan {
		return &Plan{Since: since, Rule: &Rule{Definition: Definition{UID: uid}}}
	}
	for _, tc := range []struct {
		a, b *Plan
	}{
		{plan(now, "b"), plan(now.Add(time.Second), "a")},
		{plan(now, "a"), plan(metav1.NewTime(now).Time, "b")},
	} {
		if !tc.a.IsOlder(tc.b) || tc.b.IsOlder(tc.a) {
			t.Errorf("%v is not older than %v", tc.a, tc.b)
		}
	}
}
