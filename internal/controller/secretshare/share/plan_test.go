package share

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Sources of the rules in these tests are in the namespace vault, whose UID is uid-vault.

func newRule(t *testing.T, kind string, change ...func(*Definition)) *Rule {
	t.Helper()
	def := Definition{
		UID: "rule", Name: kind + "/ca", Namespace: "vault", Operator: "bongsu-system",
		Spec: v1alpha1.SecretCopySpec{SourceDeletionGraceSeconds: new(int32(60))},
	}
	if kind == v1alpha1.KindSecretShare {
		def.Name, def.NamespaceUID = kind+"/vault/ca", "uid-vault"
	}
	for _, f := range change {
		f(&def)
	}
	r, err := Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func to(names ...v1alpha1.NamespaceGlob) func(*Definition) {
	return func(d *Definition) { d.Spec.Targets.Names = names }
}

func from(names ...string) func(*Definition) {
	return func(d *Definition) { d.Source.Names = names }
}

func namespaces(names ...string) (all []metav1.PartialObjectMetadata) {
	for _, name := range names {
		ns := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		if name == "ending" {
			ns.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		all = append(all, ns)
	}
	return all
}

// newGrant returns a grant for the namespace vault. Grants with a lower number are older.
func newGrant(number int, namespace string, names ...string) v1alpha1.SecretShareGrant {
	g := v1alpha1.SecretShareGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, UID: types.UID(fmt.Sprint("grant-", number)), Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(int64(number), 0)),
		},
		Spec:   v1alpha1.SecretShareGrantSpec{From: []v1alpha1.SecretShareGrantFrom{{Namespace: "vault"}}},
		Status: v1alpha1.SecretShareGrantStatus{From: []v1alpha1.NamespaceIdentity{{Namespace: "vault", UID: "uid-vault", Generation: 1}}},
	}
	for _, name := range names {
		g.Spec.To = append(g.Spec.To, v1alpha1.SecretShareGrantTo{Name: name})
	}
	return g
}

// numbered returns count different names.
func numbered(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	return names
}

func newPlan(t *testing.T, rule *Rule, targets ...string) *Plan {
	t.Helper()
	p := &Plan{Rule: rule}
	var grants []v1alpha1.SecretShareGrant
	for i, name := range targets {
		grants = append(grants, newGrant(i, name))
	}
	p.SetTargets(namespaces(targets...), grants, trusted)
	return p
}

func trusted(*v1alpha1.SecretShareGrant) bool { return true }

// reading sets the sources of a plan.
func (p *Plan) reading(secrets ...*corev1.Secret) *Plan {
	selection := NewSelection(p)
	for _, s := range secrets {
		selection.Add(s)
	}
	p.Sources = selection.Sources()
	return p
}

// secretNamed returns a Secret. NAME#2 is one that was created again.
func secretNamed(name string) *corev1.Secret {
	return source(func(s *corev1.Secret) {
		s.Name, _, _ = strings.Cut(name, "#")
		s.UID, s.ResourceVersion = types.UID("uid-"+name), "1"
	})
}

// copyOf returns a copy of the Secret that secretNamed returns.
func copyOf(name string) Copied {
	s := secretNamed(name)
	return Copied{Rule: "rule", Source: "vault/" + s.Name, SourceUID: s.UID}
}

func TestSetTargets(t *testing.T) {
	unrecorded := newGrant(1, "shop")
	unrecorded.Status.From = nil
	deleted := unrecorded
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	recreated := newGrant(1, "shop")
	recreated.Status.From = []v1alpha1.NamespaceIdentity{{Namespace: "vault", UID: "uid-former", Generation: 1}}
	foreign := newGrant(1, "shop")
	foreign.Spec.From[0].Namespace = "elsewhere"
	for name, tc := range map[string]struct {
		rule                            *Rule
		grants                          []v1alpha1.SecretShareGrant
		untrusted                       bool
		targets, waiting, ending, unmet []string
	}{
		"a rule of the cluster needs no grant": {
			rule: newRule(t, v1alpha1.KindClusterSecretShare), targets: []string{"bank", "shop"}, ending: []string{"ending"},
		},
		"a rule of a namespace does": {
			rule: newRule(t, v1alpha1.KindSecretShare), grants: []v1alpha1.SecretShareGrant{newGrant(1, "shop")},
			targets: []string{"shop"}, ending: []string{"ending"},
		},
		"only names show that a grant is missing": {
			rule: newRule(t, v1alpha1.KindSecretShare, to("shop", "bank", "b*")), grants: []v1alpha1.SecretShareGrant{newGrant(1, "shop")},
			targets: []string{"shop"}, unmet: []string{"bank"},
		},
		"a grant without a record":          {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), grants: []v1alpha1.SecretShareGrant{unrecorded}, waiting: []string{"shop"}},
		"that is deleted":                   {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), grants: []v1alpha1.SecretShareGrant{deleted}, unmet: []string{"shop"}},
		"a grant whose author is unchecked": {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), grants: []v1alpha1.SecretShareGrant{newGrant(1, "shop")}, untrusted: true, waiting: []string{"shop"}},
		"a grant for a former namespace":    {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), grants: []v1alpha1.SecretShareGrant{recreated}, unmet: []string{"shop"}},
		"a grant for another namespace":     {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), grants: []v1alpha1.SecretShareGrant{foreign}, unmet: []string{"shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{Rule: tc.rule}
			p.SetTargets(namespaces("bank", "shop", "vault", "bongsu-system", "kube-system", "ending"), tc.grants, func(*v1alpha1.SecretShareGrant) bool { return !tc.untrusted })
			got := [][]string{
				slices.Sorted(maps.Keys(p.Targets)), slices.Sorted(maps.Keys(p.Waiting)), slices.Sorted(maps.Keys(p.Terminating)), p.Ungranted,
			}
			if diff := cmp.Diff([][]string{tc.targets, tc.waiting, tc.ending, tc.unmet}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTargetsThatARuleNamesAndDoesNotSelect(t *testing.T) {
	labelled := func(d *Definition) {
		d.Spec.Targets.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	}
	const absent, unmatched = "it does not exist", "it does not match spec.targets.namespaceSelector"
	for name, tc := range map[string]struct {
		rule    *Rule
		grants  []v1alpha1.SecretShareGrant
		missing map[string]string // the begin of the message
		nothing string
	}{
		"a misspelt name":              {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("shop", "shpo")), missing: map[string]string{"shpo": absent}},
		"only a misspelt name":         {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("shpo")), missing: map[string]string{"shpo": absent}},
		"a glob without a namespace":   {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("shpo*")), nothing: "spec.targets selects no namespace"},
		"a selector without namespace": {rule: newRule(t, v1alpha1.KindClusterSecretShare, labelled), nothing: "spec.targets selects no namespace"},
		"names and selector exclude each other": {
			rule: newRule(t, v1alpha1.KindClusterSecretShare, to("shop"), labelled), missing: map[string]string{"shop": unmatched},
		},
		"globs and selector exclude each other": {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("sh*"), labelled), nothing: "spec.targets selects no namespace"},
		"a namespace that is being deleted":     {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("ending", "shop"))},
		// The author of a SecretShare must not learn which namespaces exist.
		"a SecretShare without a grant": {rule: newRule(t, v1alpha1.KindSecretShare, to("shop", "shpo"), labelled)},
		"a SecretShare with a grant": {
			rule: newRule(t, v1alpha1.KindSecretShare, to("shop"), labelled), grants: []v1alpha1.SecretShareGrant{newGrant(1, "shop")},
			missing: map[string]string{"shop": unmatched},
		},
		"a SecretShare that no grant accepts": {rule: newRule(t, v1alpha1.KindSecretShare), nothing: "has a SecretShareGrant"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{Rule: tc.rule}
			p.SetTargets(namespaces("shop", "vault", "ending"), tc.grants, trusted)
			for namespace, found := range p.Missing {
				if begin := tc.missing[namespace]; begin == "" || !strings.HasPrefix(found.Message, begin) {
					t.Errorf("%s: %q, want %q", namespace, found.Message, begin)
				}
			}
			if len(p.Missing) != len(tc.missing) {
				t.Errorf("missing: %v, want %v", p.Missing, tc.missing)
			}
			if got := p.NothingSelected(); (got == "") != (tc.nothing == "") || !strings.Contains(got, tc.nothing) {
				t.Errorf("%q, want %q", got, tc.nothing)
			}
		})
	}
}

func TestANamespaceOfSourcesThatDoesNotExistIsReported(t *testing.T) {
	for kind, rule := range map[string]*Rule{"names": newRule(t, v1alpha1.KindClusterSecretShare, from("a")), "no names": newRule(t, v1alpha1.KindClusterSecretShare)} {
		t.Run(kind, func(t *testing.T) {
			if got := newPlan(t, rule, "shop").reading(); !strings.Contains(got.Problem().Message+got.Nothing(), "namespace vault of spec.source does not exist") {
				t.Errorf("%q, %q", got.Problem().Message, got.Nothing())
			}
			if got := newPlan(t, rule, "shop", "vault").reading(); strings.Contains(got.Problem().Message+got.Nothing(), "exist") {
				t.Errorf("%q, %q", got.Problem().Message, got.Nothing())
			}
		})
	}
}

func TestTheOldestGrantsOfANamespaceAllowUpToALimitOfNames(t *testing.T) {
	const all = -1
	for name, tc := range map[string]struct {
		grants  []v1alpha1.SecretShareGrant
		want    int
		exceeds []types.UID
	}{
		"no duplicates":                  {[]v1alpha1.SecretShareGrant{newGrant(2, "shop", "a", "b"), newGrant(1, "shop", "b", "c")}, 3, nil},
		"just the limit":                 {[]v1alpha1.SecretShareGrant{newGrant(1, "shop", numbered("a", MaxGrantedNames)...), newGrant(2, "shop", "a-0")}, MaxGrantedNames, nil},
		"a younger grant beyond it":      {[]v1alpha1.SecretShareGrant{newGrant(2, "shop", "a-0", "b"), newGrant(1, "shop", numbered("a", MaxGrantedNames)...)}, MaxGrantedNames, []types.UID{"grant-2"}},
		"an older grant takes the place": {[]v1alpha1.SecretShareGrant{newGrant(1, "shop", "b"), newGrant(2, "shop", numbered("a", MaxGrantedNames)...)}, MaxGrantedNames, []types.UID{"grant-2"}},
		"a grant for all names":          {[]v1alpha1.SecretShareGrant{newGrant(1, "shop", numbered("a", 2*MaxGrantedNames)...), newGrant(2, "shop")}, all, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{Rule: newRule(t, v1alpha1.KindSecretShare)}
			p.SetTargets(namespaces("shop"), tc.grants, trusted)
			names := p.Targets["shop"].names
			if got := len(names); got != tc.want && (names != nil || tc.want != all) {
				t.Errorf("%d names, want %d", got, tc.want)
			}
			var exceeds []types.UID
			for uid, state := range p.Grants {
				if state.Exceeds {
					exceeds = append(exceeds, uid)
				}
			}
			if diff := cmp.Diff(tc.exceeds, exceeds); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	needsKey := func(d *Definition) { d.Spec.Keys = []v1alpha1.SecretKeyMapping{{From: "c"}} }
	sameName := func(d *Definition) {
		d.Spec.CopyName = &v1alpha1.SecretCopyName{Rename: []v1alpha1.SecretRename{{From: "a", To: "b"}}}
	}
	token := secretNamed("a")
	token.Type = corev1.SecretTypeServiceAccountToken
	for name, tc := range map[string]struct {
		rule                  *Rule
		secrets               []*corev1.Secret
		wanted                []string
		held                  int
		reason, part, nothing string
	}{
		"no Secret":               {rule: newRule(t, v1alpha1.KindClusterSecretShare), nothing: "there is nothing to copy yet"},
		"Secrets":                 {rule: newRule(t, v1alpha1.KindClusterSecretShare), secrets: []*corev1.Secret{secretNamed("a"), secretNamed("b")}, wanted: []string{"a", "b"}},
		"a name without a Secret": {rule: newRule(t, v1alpha1.KindClusterSecretShare, from("a", "b")), secrets: []*corev1.Secret{secretNamed("b")}, wanted: []string{"b"}, reason: v1alpha1.ReasonSourceNotFound, part: "the name a in namespace vault"},
		"a key that is missing":   {rule: newRule(t, v1alpha1.KindClusterSecretShare, needsKey), secrets: []*corev1.Secret{secretNamed("a")}, held: 1, reason: v1alpha1.ReasonKeyNotFound, part: "c"},
		"a token":                 {rule: newRule(t, v1alpha1.KindClusterSecretShare), secrets: []*corev1.Secret{token}, reason: v1alpha1.ReasonSourceRefused, part: "token"},
		"two for one name":        {rule: newRule(t, v1alpha1.KindClusterSecretShare, sameName), secrets: []*corev1.Secret{secretNamed("a"), secretNamed("b")}, wanted: []string{"b"}, reason: v1alpha1.ReasonSourceRefused, part: "correct spec.copyName"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlan(t, tc.rule, "shop").reading(tc.secrets...)
			if diff := cmp.Diff(tc.wanted, slices.Sorted(maps.Keys(p.Wanted))); diff != "" || len(p.Held) != tc.held || len(p.Versions) != len(tc.secrets) {
				t.Errorf("%d are held, %d were read: %s", len(p.Held), len(p.Versions), diff)
			}
			if got := p.Problem(); got.Reason != tc.reason || !strings.Contains(got.Message, tc.part) {
				t.Errorf("%+v, want %s with %q", got, tc.reason, tc.part)
			}
			if got := p.Nothing(); (got == "") != (tc.nothing == "") || !strings.Contains(got, tc.nothing) {
				t.Errorf("%q, want %q", got, tc.nothing)
			}
		})
	}
}

func TestKeepsAndWhyRemoved(t *testing.T) {
	waiting := newGrant(1, "shop")
	waiting.Status.From = nil
	for name, tc := range map[string]struct {
		rule    *Rule
		grants  []v1alpha1.SecretShareGrant
		prepare func(*Plan)
		copied  Copied
		removed string // why, or empty if the copy stays
	}{
		"wanted":                                {rule: newRule(t, v1alpha1.KindClusterSecretShare), copied: copyOf("a")},
		"of a source that is held":              {rule: newRule(t, v1alpha1.KindClusterSecretShare), prepare: func(p *Plan) { p.Sources = p.Hold() }, copied: copyOf("a")},
		"of a source that cannot be read":       {rule: newRule(t, v1alpha1.KindClusterSecretShare), prepare: func(p *Plan) { p.Sources = Sources{Unknown: true} }, copied: copyOf("other")},
		"whose grant has no record":             {rule: newRule(t, v1alpha1.KindSecretShare), grants: []v1alpha1.SecretShareGrant{waiting}, copied: copyOf("other")},
		"of a source that is gone":              {rule: newRule(t, v1alpha1.KindClusterSecretShare), copied: copyOf("other"), removed: "Secret other does not exist, or spec.source does not select it"},
		"with a forged source":                  {rule: newRule(t, v1alpha1.KindClusterSecretShare), copied: Copied{Rule: "rule", Source: "vault/\x1b[31m"}, removed: "spec.source does not select their source"},
		"of a name that spec.source leaves out": {rule: newRule(t, v1alpha1.KindClusterSecretShare, from("a")), copied: copyOf("other"), removed: "spec.source does not select Secret other"},
		"of an earlier rule":                    {rule: newRule(t, v1alpha1.KindClusterSecretShare), copied: Copied{Rule: "former", Source: "vault/other"}, removed: "an earlier rule of the same name wrote them, and this rule wants no copies there"},
		"in a namespace that is not selected":   {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("bank")), copied: copyOf("a"), removed: "spec.targets does not select their namespaces"},
		"in a namespace without a grant":        {rule: newRule(t, v1alpha1.KindSecretShare), copied: copyOf("a"), removed: "spec.targets does not select their namespaces, or these have no SecretShareGrant"},
		"in a namespace that is named":          {rule: newRule(t, v1alpha1.KindSecretShare, to("shop")), copied: copyOf("a"), removed: "no SecretShareGrant allows them any more"},
		"with a name that is not granted":       {rule: newRule(t, v1alpha1.KindSecretShare), grants: []v1alpha1.SecretShareGrant{newGrant(1, "shop", "b")}, copied: copyOf("a"), removed: "no SecretShareGrant allows them any more"},
		"of a rule that is deleted":             {rule: newRule(t, v1alpha1.KindClusterSecretShare, to("bank")), prepare: func(p *Plan) { p.Deleting = true }, copied: copyOf("a"), removed: "the rule is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{Rule: tc.rule}
			p.SetTargets(namespaces("shop", "bank"), tc.grants, trusted)
			p.reading(secretNamed("a"))
			if tc.prepare != nil {
				tc.prepare(p)
			}
			at := types.NamespacedName{Namespace: "shop", Name: strings.TrimPrefix(tc.copied.Source, "vault/")}
			if got := p.Keeps(at, tc.copied); got != (tc.removed == "") {
				t.Errorf("it stays: %t", got)
			}
			if got := p.WhyRemoved(nil, at, tc.copied); tc.removed != "" && got != tc.removed {
				t.Errorf("it is removed because %q, want %q", got, tc.removed)
			}
		})
	}
}

func TestCopiesIn(t *testing.T) {
	p := &Plan{Rule: newRule(t, v1alpha1.KindSecretShare, to("shop", "bank"))}
	p.SetTargets(namespaces("shop", "bank"), []v1alpha1.SecretShareGrant{newGrant(1, "shop", "a*")}, trusted)
	p.reading(secretNamed("a1"), secretNamed("a2"), secretNamed("b"))
	names, denied := p.CopiesIn("shop")
	if diff := cmp.Diff([][]string{{"a1", "a2"}, {"b"}}, [][]string{names, denied}); diff != "" {
		t.Error(diff)
	}
	if names, denied := p.CopiesIn("bank"); len(names)+len(denied) > 0 {
		t.Errorf("%v and %v in a namespace without a grant", names, denied)
	}
	if got := p.Desired(); got != 6 { // 3 in each namespace
		t.Errorf("%d copies should exist", got)
	}
}

func TestIsAffectedBy(t *testing.T) {
	p := newPlan(t, newRule(t, v1alpha1.KindClusterSecretShare, from("a", "b")), "shop").reading(secretNamed("a"))
	for name, tc := range map[string]struct {
		secret, version string
		want            bool
	}{
		"nothing changed":           {"a", "uid-a/1", false},
		"another version":           {"a", "uid-a/2", true},
		"deleted":                   {"a", "", true},
		"created":                   {"b", "uid-b/1", true},
		"deleted before it is read": {"b", "", false},
		"another Secret":            {"c", "uid-c/1", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.IsAffectedBy(tc.secret, tc.version, nil); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
	p.Sources = Sources{Skipped: true}
	if p.IsAffectedBy("a", "uid-a/2", nil) {
		t.Error("a plan without targets is affected")
	}
}

func TestRemovalNote(t *testing.T) {
	removals := map[string]int{}
	for i := range 20 {
		removals[fmt.Sprint("cause ", i)] = i + 1
	}
	for name, tc := range map[string]struct {
		policy   v1alpha1.DeletionPolicy
		removals map[string]int
		want     string
	}{
		"one":         {"", map[string]int{"x": 1}, "Deleting 1 copy: x"},
		"released":    {v1alpha1.DeletionPolicyRetain, map[string]int{"x": 2}, "Releasing 2 copies: x"},
		"many causes": {"", removals, "Deleting 210 copies: 20 because cause 19; 19 because cause 18; 18 because cause 17; 17 because cause 16; 16 because cause 15; and 120 for other reasons"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := newRule(t, v1alpha1.KindClusterSecretShare, func(d *Definition) { d.Spec.DeletionPolicy = tc.policy })
			if got := rule.RemovalNote(tc.removals); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
