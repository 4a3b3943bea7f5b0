package share

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func compile(t *testing.T, spec v1alpha1.SecretCopySpec) *Rule {
	t.Helper()
	r, err := Compile(Definition{UID: "rule", Name: "ClusterSecretShare/ca", Namespace: "vault", Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func source(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "vault", Name: "ca", UID: "source",
			Labels: map[string]string{"team": "shop", "app.kubernetes.io/instance": "argo", "app": "web"},
			Annotations: map[string]string{
				"note": "hello", "kubectl.kubernetes.io/last-applied-configuration": "hunter2", "bongsu.io/forged": "x",
			},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func TestACopyHoldsWhatTheRuleLetsThrough(t *testing.T) {
	everything := []v1alpha1.MetadataGlob{"*"}
	for name, tc := range map[string]struct {
		spec                v1alpha1.SecretCopySpec
		data                map[string][]byte
		labels, annotations map[string]string // besides our own
		copied              string
	}{
		"all data, no metadata": {data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}},
		"some keys, renamed": {
			spec: v1alpha1.SecretCopySpec{Keys: []v1alpha1.SecretKeyMapping{{From: "a"}, {From: "b", To: "c"}}},
			data: map[string][]byte{"a": []byte("1"), "c": []byte("2")},
		},
		"metadata, but no tool's marks": {
			spec: v1alpha1.SecretCopySpec{
				Keys: []v1alpha1.SecretKeyMapping{{From: "a"}}, CopyLabels: everything, CopyAnnotations: everything,
			},
			data:   map[string][]byte{"a": []byte("1")},
			labels: map[string]string{"team": "shop", "app": "web"}, annotations: map[string]string{"note": "hello"},
			copied: "annotation:note label:app label:team",
		},
		"the labels that are named": {
			spec:   v1alpha1.SecretCopySpec{Keys: []v1alpha1.SecretKeyMapping{{From: "a"}}, CopyLabels: []v1alpha1.MetadataGlob{"te*"}},
			data:   map[string][]byte{"a": []byte("1")},
			labels: map[string]string{"team": "shop"}, copied: "label:team",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, refusal := compile(t, tc.spec).Copy(source())
			if refusal != nil {
				t.Fatal(refusal)
			}
			want := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Name: "ca", Labels: map[string]string{LabelRuleUID: "rule"},
					Annotations: map[string]string{
						AnnotationRuleUID: "rule", AnnotationSourceUID: "source",
						AnnotationRule: "ClusterSecretShare/ca", AnnotationSource: "vault/ca", AnnotationCopied: tc.copied,
					},
				},
				Type: corev1.SecretTypeOpaque, Data: tc.data,
			}
			overlay(want.Labels, tc.labels)
			overlay(want.Annotations, tc.annotations)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsNeverCopiedIsRefusedWithAReason(t *testing.T) {
	ofType := func(kind corev1.SecretType, keys ...string) *corev1.Secret {
		return source(func(s *corev1.Secret) {
			s.Type, s.Data = kind, map[string][]byte{}
			for _, key := range keys {
				s.Data[key] = []byte("hunter2")
			}
		})
	}
	only := func(key string) v1alpha1.SecretCopySpec {
		return v1alpha1.SecretCopySpec{Keys: []v1alpha1.SecretKeyMapping{{From: key}}}
	}
	for name, tc := range map[string]struct {
		spec         v1alpha1.SecretCopySpec
		source       *corev1.Secret
		reason, says string
	}{
		"a service account's token": {source: ofType(corev1.SecretTypeServiceAccountToken), reason: "SourceRefused", says: "a token of a service account"},
		"a bootstrap token":         {source: ofType("bootstrap.kubernetes.io/token"), reason: "SourceRefused", says: "by which nodes join"},
		"Helm's record":             {source: ofType("helm.sh/release.v1"), reason: "SourceRefused", says: "Helm's record"},
		"a copy": {
			source: source(func(s *corev1.Secret) {
				s.Annotations = map[string]string{AnnotationRuleUID: "other", AnnotationSourceUID: "x", AnnotationSource: "far/away"}
			}),
			reason: "SourceRefused", says: "a copy of far/away",
		},
		"a key that is not there":         {spec: only("z"), source: source(), reason: "KeyNotFound", says: `no key "z"`},
		"a TLS pair without its key":      {spec: only("tls.crt"), source: ofType(corev1.SecretTypeTLS, "tls.crt", "tls.key"), reason: "KeyNotFound", says: "tls.key"},
		"basic auth without either":       {spec: only("x"), source: ofType(corev1.SecretTypeBasicAuth, "x", "username"), reason: "KeyNotFound", says: "username or password"},
		"a registry without its config":   {spec: only("x"), source: ofType(corev1.SecretTypeDockerConfigJson, "x", ".dockerconfigjson"), reason: "KeyNotFound", says: ".dockerconfigjson"},
		"an SSH identity without its key": {spec: only("x"), source: ofType(corev1.SecretTypeSSHAuth, "x", "ssh-privatekey"), reason: "KeyNotFound", says: "ssh-privatekey"},
	} {
		t.Run(name, func(t *testing.T) {
			got, refusal := compile(t, tc.spec).Copy(tc.source)
			if got != nil || refusal == nil || refusal.Reason != tc.reason || !strings.Contains(refusal.Message, tc.says) {
				t.Errorf("got %v, %+v", got, refusal)
			}
			if refusal != nil && strings.Contains(refusal.Message, "hunter2") {
				t.Errorf("it tells a value: %s", refusal.Message)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	rule := compile(t, v1alpha1.SecretCopySpec{CopyLabels: []v1alpha1.MetadataGlob{"team"}})
	want, _ := rule.Copy(source())
	live := func(change ...func(*corev1.Secret)) *corev1.Secret {
		s := want.DeepCopy()
		s.Namespace, s.UID = "shop", "copy"
		for _, f := range change {
			f(s)
		}
		return s
	}
	yes := true
	for name, tc := range map[string]struct {
		live *corev1.Secret
		want Verdict
	}{
		"as it should be":             {live(), Same},
		"with somebody's label":       {live(func(s *corev1.Secret) { s.Labels["mine"] = "x" }), Same},
		"with somebody's annotation":  {live(func(s *corev1.Secret) { s.Annotations["mine"] = "x" }), Same},
		"with no marks":               {live(func(s *corev1.Secret) { s.Annotations = nil }), Foreign},
		"with the label alone":        {live(func(s *corev1.Secret) { delete(s.Annotations, AnnotationRuleUID) }), Foreign},
		"with half of the pair":       {live(func(s *corev1.Secret) { delete(s.Annotations, AnnotationSourceUID) }), Foreign},
		"another rule's":              {live(func(s *corev1.Secret) { s.Annotations[AnnotationRuleUID] = "other" }), Foreign},
		"of a source of former times": {live(func(s *corev1.Secret) { s.Annotations[AnnotationSourceUID] = "former" }), Update},
		"an edited value":             {live(func(s *corev1.Secret) { s.Data["a"] = []byte("x") }), Update},
		"a value more":                {live(func(s *corev1.Secret) { s.Data["z"] = []byte("x") }), Update},
		"a value less":                {live(func(s *corev1.Secret) { delete(s.Data, "a") }), Update},
		"its label stripped":          {live(func(s *corev1.Secret) { delete(s.Labels, LabelRuleUID) }), Update},
		"a copied label changed":      {live(func(s *corev1.Secret) { s.Labels["team"] = "x" }), Update},
		"a label once copied": {live(func(s *corev1.Secret) {
			s.Labels["former"] = "x"
			s.Annotations[AnnotationCopied] += " label:former"
		}), Update},
		"another type":         {live(func(s *corev1.Secret) { s.Type = "example.com/other" }), Replace},
		"made immutable":       {live(func(s *corev1.Secret) { s.Immutable = &yes }), Replace},
		"immutable and edited": {live(func(s *corev1.Secret) { s.Immutable = &yes; s.Data["a"] = []byte("x") }), Replace},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Judge(tc.live, want); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			if tc.want != Update {
				return
			}
			merged := Merge(tc.live, want)
			if got := Judge(merged, want); got != Same {
				t.Errorf("after the repair it is %v", got)
			}
			if _, stays := merged.Labels["former"]; stays {
				t.Error("a label that was copied once stays")
			}
		})
	}
}

func TestAnImmutableSourceMakesImmutableCopies(t *testing.T) {
	yes := true
	want, _ := compile(t, v1alpha1.SecretCopySpec{}).Copy(source(func(s *corev1.Secret) { s.Immutable = &yes }))
	live := want.DeepCopy()
	live.Immutable = nil
	if got := Judge(live, want); got != Update {
		t.Errorf("got %v", got)
	}
	if got := Judge(want.DeepCopy(), want); got != Same {
		t.Errorf("got %v", got)
	}
}

func TestUnmarkLeavesNothingOfOurs(t *testing.T) {
	got, _ := compile(t, v1alpha1.SecretCopySpec{CopyLabels: []v1alpha1.MetadataGlob{"team"}}).Copy(source())
	Unmark(got)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ca", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{}},
		Type:       corev1.SecretTypeOpaque, Data: source().Data,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRedactTakesOutValuesInEveryForm(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{"p": []byte("hunter2\n"), "short": []byte("a")}}
	got := Redact(`denied: "hunter2", aHVudGVyMgo= and a`, s)
	if want := `denied: "[redacted]", [redacted] and a`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestTargets(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	for name, tc := range map[string]struct {
		targets v1alpha1.SecretTargets
		want    []string
	}{
		"all but its own and system namespaces": {v1alpha1.SecretTargets{}, []string{"shop", "shop-test"}},
		"an exclusion keeps system namespaces excluded": {
			v1alpha1.SecretTargets{Exclude: []v1alpha1.NamespaceGlob{"*-test"}}, []string{"shop"},
		},
		"system namespaces included": {
			v1alpha1.SecretTargets{SystemNamespaces: v1alpha1.SystemNamespacesInclude}, []string{"kube-system", "shop", "shop-test"},
		},
		"a system namespace included and excluded by name": {
			v1alpha1.SecretTargets{SystemNamespaces: v1alpha1.SystemNamespacesInclude, Exclude: []v1alpha1.NamespaceGlob{"kube-system"}},
			[]string{"shop", "shop-test"},
		},
		"named":    {v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"shop", "vault"}}, []string{"shop"}},
		"globs":    {v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"shop*"}}, []string{"shop", "shop-test"}},
		"selected": {v1alpha1.SecretTargets{NamespaceSelector: selector}, []string{"shop"}},
		"exclude wins": {
			v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"shop*"}, Exclude: []v1alpha1.NamespaceGlob{"*-test"}}, []string{"shop"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := compile(t, v1alpha1.SecretCopySpec{Targets: tc.targets})
			var got []string
			for _, ns := range []string{"kube-system", "shop", "shop-test", "vault"} {
				if r.Targets(ns, map[string]string{"team": ns}) {
					got = append(got, ns)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
