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

func TestACopyContainsWhatTheRuleAllows(t *testing.T) {
	everything := []v1alpha1.MetadataGlob{"*"}
	for name, tc := range map[string]struct {
		spec                v1alpha1.SecretCopySpec
		data                map[string][]byte
		labels, annotations map[string]string // without those of the operator
		copied              string
	}{
		"all data, no metadata": {data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}},
		"some keys, renamed": {
			spec: v1alpha1.SecretCopySpec{Keys: []v1alpha1.SecretKeyMapping{{From: "a"}, {From: "b", To: "c"}}},
			data: map[string][]byte{"a": []byte("1"), "c": []byte("2")},
		},
		"metadata, but not that of tools": {
			spec: v1alpha1.SecretCopySpec{
				Keys: []v1alpha1.SecretKeyMapping{{From: "a"}}, CopyLabels: everything, CopyAnnotations: everything,
			},
			data:   map[string][]byte{"a": []byte("1")},
			labels: map[string]string{"team": "shop", "app": "web"}, annotations: map[string]string{"note": "hello"},
			copied: "annotation:note label:app label:team",
		},
		"only the named labels": {
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

func TestRefusedSourcesHaveAReason(t *testing.T) {
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
		spec            v1alpha1.SecretCopySpec
		source          *corev1.Secret
		reason, message string
	}{
		"a service account's token": {source: ofType(corev1.SecretTypeServiceAccountToken), reason: "SourceRefused", message: "a service account token"},
		"a bootstrap token":         {source: ofType("bootstrap.kubernetes.io/token"), reason: "SourceRefused", message: "by which nodes join"},
		"a Helm release":            {source: ofType("helm.sh/release.v1"), reason: "SourceRefused", message: "a record of a Helm release"},
		"a copy": {
			source: source(func(s *corev1.Secret) {
				s.Annotations = map[string]string{AnnotationRuleUID: "other", AnnotationSourceUID: "x", AnnotationSource: "far/away"}
			}),
			reason: "SourceRefused", message: "a copy of far/away",
		},
		"a missing key":                 {spec: only("z"), source: source(), reason: "KeyNotFound", message: `no key "z"`},
		"TLS without its private key":   {spec: only("tls.crt"), source: ofType(corev1.SecretTypeTLS, "tls.crt", "tls.key"), reason: "KeyNotFound", message: "tls.key"},
		"basic auth without either":     {spec: only("x"), source: ofType(corev1.SecretTypeBasicAuth, "x", "username"), reason: "KeyNotFound", message: "username or password"},
		"a registry without its config": {spec: only("x"), source: ofType(corev1.SecretTypeDockerConfigJson, "x", ".dockerconfigjson"), reason: "KeyNotFound", message: ".dockerconfigjson"},
		"a renamed key that its type requires": {
			spec:   v1alpha1.SecretCopySpec{Keys: []v1alpha1.SecretKeyMapping{{From: ".dockerconfigjson", To: "config.json"}}},
			source: ofType(corev1.SecretTypeDockerConfigJson, ".dockerconfigjson"), reason: "KeyNotFound", message: "remove the field to of .dockerconfigjson",
		},
		"a copy whose name is too long": {
			spec:   v1alpha1.SecretCopySpec{CopyName: &v1alpha1.SecretCopyName{Suffix: strings.Repeat("x", 252)}},
			source: source(), reason: "SourceRefused", message: "correct spec.copyName",
		},
		"an SSH identity without its key": {spec: only("x"), source: ofType(corev1.SecretTypeSSHAuth, "x", "ssh-privatekey"), reason: "KeyNotFound", message: "ssh-privatekey"},
	} {
		t.Run(name, func(t *testing.T) {
			got, refusal := compile(t, tc.spec).Copy(tc.source)
			if got != nil || refusal == nil || refusal.Reason != tc.reason || !strings.Contains(refusal.Message, tc.message) {
				t.Errorf("got %v, %+v", got, refusal)
			}
			if refusal != nil && strings.Contains(refusal.Message, "hunter2") {
				t.Errorf("the message contains a value: %s", refusal.Message)
			}
		})
	}
}

func TestAWildcardInALabelSelectorIsExplained(t *testing.T) {
	_, err := Compile(Definition{Spec: v1alpha1.SecretCopySpec{Targets: v1alpha1.SecretTargets{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "*"}},
	}}})
	if want := "matchExpressions: [{key: team, operator: Exists}]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestCompare(t *testing.T) {
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
		want Action
	}{
		"up to date":         {live(), Keep},
		"another label":      {live(func(s *corev1.Secret) { s.Labels["mine"] = "x" }), Keep},
		"another annotation": {live(func(s *corev1.Secret) { s.Annotations["mine"] = "x" }), Keep},
		"no annotations":     {live(func(s *corev1.Secret) { s.Annotations = nil }), Conflict},
		"only the label":     {live(func(s *corev1.Secret) { delete(s.Annotations, AnnotationRuleUID) }), Conflict},
		"only the rule UID":  {live(func(s *corev1.Secret) { delete(s.Annotations, AnnotationSourceUID) }), Conflict},
		"copy of another rule": {live(func(s *corev1.Secret) {
			s.Annotations[AnnotationRuleUID], s.Annotations[AnnotationRule] = "other", "ClusterSecretShare/other"
		}), Conflict},
		"copy of a former rule of this name": {live(func(s *corev1.Secret) { s.Annotations[AnnotationRuleUID] = "former" }), Replace},
		"copy of a former source":            {live(func(s *corev1.Secret) { s.Annotations[AnnotationSourceUID] = "former" }), Update},
		"an edited value":                    {live(func(s *corev1.Secret) { s.Data["a"] = []byte("x") }), Update},
		"an additional value":                {live(func(s *corev1.Secret) { s.Data["z"] = []byte("x") }), Update},
		"a missing value":                    {live(func(s *corev1.Secret) { delete(s.Data, "a") }), Update},
		"label removed":                      {live(func(s *corev1.Secret) { delete(s.Labels, LabelRuleUID) }), Update},
		"a copied label changed":             {live(func(s *corev1.Secret) { s.Labels["team"] = "x" }), Update},
		"a label that was copied before": {live(func(s *corev1.Secret) {
			s.Labels["former"] = "x"
			s.Annotations[AnnotationCopied] += " label:former"
		}), Update},
		"another type":         {live(func(s *corev1.Secret) { s.Type = "example.com/other" }), Replace},
		"made immutable":       {live(func(s *corev1.Secret) { s.Immutable = &yes }), Replace},
		"immutable and edited": {live(func(s *corev1.Secret) { s.Immutable = &yes; s.Data["a"] = []byte("x") }), Replace},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Compare(tc.live, want); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			if tc.want != Update {
				return
			}
			merged := Merge(tc.live, want)
			if got := Compare(merged, want); got != Keep {
				t.Errorf("after the merge: %v", got)
			}
			if _, kept := merged.Labels["former"]; kept {
				t.Error("a label that the source no longer has stays")
			}
		})
	}
}

func TestAnImmutableSourceMakesImmutableCopies(t *testing.T) {
	yes := true
	want, _ := compile(t, v1alpha1.SecretCopySpec{}).Copy(source(func(s *corev1.Secret) { s.Immutable = &yes }))
	live := want.DeepCopy()
	live.Immutable = nil
	if got := Compare(live, want); got != Update {
		t.Errorf("got %v", got)
	}
	if got := Compare(want.DeepCopy(), want); got != Keep {
		t.Errorf("got %v", got)
	}
}

func TestAReleasedCopyKeepsOneAnnotationOfTheOperator(t *testing.T) {
	got, _ := compile(t, v1alpha1.SecretCopySpec{CopyLabels: []v1alpha1.MetadataGlob{"team"}}).Copy(source())
	Release(got)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ca", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{AnnotationReleasedBy: "ClusterSecretShare/ca"},
		},
		Type: corev1.SecretTypeOpaque, Data: source().Data,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// released returns a copy that its rule has released.
func released(by *Rule) *corev1.Secret {
	live, _ := by.Copy(source())
	Release(live)
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldOwner, FieldsV1: metav1.NewFieldsV1(
		`{"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:team": {}}, "f:annotations": {"f:note": {}}}, "f:type": {}}`,
	)}}
	return live
}

// writes adds fields that another client has written.
func writes(fields string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-edit", FieldsV1: metav1.NewFieldsV1(fields)})
	}
}

// The owner of a released Secret may have changed it. The next rule must not overwrite that.
func TestAReleasedSecretIsTakenBackOnlyUnchanged(t *testing.T) {
	spec := v1alpha1.SecretCopySpec{CopyLabels: []v1alpha1.MetadataGlob{"team"}, CopyAnnotations: []v1alpha1.MetadataGlob{"note"}}
	former := compile(t, spec)
	next := compile(t, spec)
	next.UID = "next"
	want, _ := next.Copy(source())
	for name, tc := range map[string]struct {
		change func(*corev1.Secret)
		want   Action
	}{
		"unchanged":                   {func(*corev1.Secret) {}, Update},
		"the source rotated":          {func(s *corev1.Secret) { s.Data["a"] = []byte("former") }, Update},
		"another label":               {writes(`{"f:metadata": {"f:labels": {"f:mine": {}}}}`), Update},
		"a copied label changed":      {writes(`{"f:metadata": {"f:labels": {"f:team": {}}}}`), Conflict},
		"a copied annotation changed": {writes(`{"f:metadata": {"f:annotations": {"f:note": {}}}}`), Conflict},
		"a value changed":             {writes(`{"f:data": {"f:a": {}}}`), Conflict},
		"a key added":                 {writes(`{"f:data": {"f:z": {}}}`), Conflict},
		"made immutable":              {writes(`{"f:immutable": {}}`), Conflict},
		"created again":               {writes(`{"f:type": {}}`), Conflict},
		"an unknown edit":             {writes(`"?"`), Conflict},
		"no managed fields":           {func(s *corev1.Secret) { s.ManagedFields = nil }, Conflict},
		"only those of others":        {func(s *corev1.Secret) { s.ManagedFields[0].Manager = "kubectl" }, Conflict},
		// If equal content decided, a tenant could find out whether a guessed value is right.
		"created by another with the same content": {func(s *corev1.Secret) {
			s.ManagedFields = nil
			writes(`{"f:data": {"f:a": {}, "f:b": {}}, "f:type": {}}`)(s)
		}, Conflict},
		"recreated with another type": {func(s *corev1.Secret) { s.Type = "example.com/other" }, Conflict},
		"the annotation removed":      {func(s *corev1.Secret) { delete(s.Annotations, AnnotationReleasedBy) }, Conflict},
		"the annotation of another":   {func(s *corev1.Secret) { s.Annotations[AnnotationReleasedBy] = "ClusterSecretShare/other" }, Conflict},
		"the copy of another rule": {func(s *corev1.Secret) {
			s.Annotations[AnnotationRuleUID], s.Annotations[AnnotationSourceUID] = "a", "b"
		}, Conflict},
		"a value changed, and adopted": {func(s *corev1.Secret) {
			writes(`{"f:data": {"f:a": {}}}`)(s)
			s.Annotations[AnnotationAdopt] = next.Name
		}, Update},
	} {
		t.Run(name, func(t *testing.T) {
			live := released(former)
			tc.change(live)
			if got := Compare(live, want); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			if tc.want == Conflict {
				return
			}
			merged := Merge(live, want)
			if _, marked := merged.Annotations[AnnotationReleasedBy]; marked || Compare(merged, want) != Keep {
				t.Errorf("after the merge: %v", merged.Annotations)
			}
		})
	}
}

// The next owner of a namespace's name does not get Secrets of the former one.
func TestOnlyARuleOfTheSameNamespaceTakesASecretBack(t *testing.T) {
	copyOf := func(name, uid, namespaceUID string) *corev1.Secret {
		r, err := Compile(Definition{UID: uid, Name: name, Namespace: "vault"})
		if err != nil {
			t.Fatal(err)
		}
		copied, _ := r.In(namespaceUID).Copy(source())
		return copied
	}
	for name, tc := range map[string]struct {
		former, next *corev1.Secret
		want         Action
	}{
		"the same namespace":             {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("SecretShare/vault/ca", "next", "1"), Update},
		"the same rule":                  {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("SecretShare/vault/ca", "former", "1"), Update},
		"another name":                   {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("SecretShare/vault/ca2", "next", "1"), Conflict},
		"another kind":                   {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("ClusterSecretShare/ca", "next", ""), Conflict},
		"a namespace that was recreated": {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("SecretShare/vault/ca", "next", "2"), Conflict},
		"a copy of an unknown namespace": {copyOf("SecretShare/vault/ca", "former", ""), copyOf("SecretShare/vault/ca", "next", "1"), Conflict},
		"the namespace is not known":     {copyOf("SecretShare/vault/ca", "former", "1"), copyOf("SecretShare/vault/ca", "next", ""), Conflict},
		"neither is known":               {copyOf("SecretShare/vault/ca", "former", ""), copyOf("SecretShare/vault/ca", "next", ""), Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			Release(tc.former)
			tc.former.ManagedFields = released(compile(t, v1alpha1.SecretCopySpec{})).ManagedFields
			if got := Compare(tc.former, tc.next); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRedactRemovesValuesInEveryEncoding(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{"p": []byte("hunter2\n"), "short": []byte("a")}}
	got := Redact(`denied: "hunter2", aHVudGVyMgo= and a`, s)
	if want := `denied: "[redacted]", [redacted] and a`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestRedactRemovesAValueThatContainsAnother(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{
		"password": []byte("hunter2"), "url": []byte("postgres://admin:hunter2@db/shop"), "admin": []byte("admin"),
	}}
	for range 20 { // maps have a random order
		if got, want := Redact("denied: postgres://admin:hunter2@db/shop", s), "denied: [redacted]"; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// A copy that was not updated contains the former values of its source.
func TestRedactRemovesTheValuesOfAllSecrets(t *testing.T) {
	before := &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2-of-old")}}
	now := &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2")}}
	for _, secrets := range [][]*corev1.Secret{{before, now}, {now, before}} {
		if got, want := Redact("hunter2-of-old must not become hunter2", secrets...), "[redacted] must not become [redacted]"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The operator keeps both annotations of all copies in memory.
func TestAnnotationsOfAnImpossibleSizeAreIgnored(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for name, annotations := range map[string]map[string]string{
		"rule":   {AnnotationRuleUID: long, AnnotationSourceUID: "source"},
		"source": {AnnotationRuleUID: "rule", AnnotationSourceUID: long},
	} {
		if got := RuleOf(annotations); got != "" {
			t.Errorf("%s: the Secret is a copy of %s", name, got)
		}
	}
	if got := SourceOf(map[string]string{AnnotationSource: long}); got != "" {
		t.Errorf("the source is %s", got)
	}
}

func TestAProtectedNamespaceGetsNoCopies(t *testing.T) {
	for name, tc := range map[string]struct {
		targets v1alpha1.SecretTargets
		named   []string
		invalid string
	}{
		"selected": {targets: v1alpha1.SecretTargets{SystemNamespaces: v1alpha1.SystemNamespacesInclude}},
		"named": {
			v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"kube-system", "shop"}, SystemNamespaces: v1alpha1.SystemNamespacesInclude}, []string{"shop"},
			"spec.targets.names contains the namespace kube-system, which is protected and gets no copies: remove it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := compile(t, v1alpha1.SecretCopySpec{Targets: tc.targets})
			if !r.Targets("kube-system", nil) {
				t.Error("a namespace that is not protected gets no copies")
			}
			r.Protected = []string{"payments", "kube-system"}
			if r.Targets("kube-system", nil) || !r.Targets("shop", nil) {
				t.Error("a protected namespace gets copies, or another one gets none")
			}
			if diff := cmp.Diff(tc.named, r.NamedTargets()); diff != "" {
				t.Error(diff)
			}
			if got := r.InvalidTarget(); got != tc.invalid {
				t.Errorf("%q, want %q", got, tc.invalid)
			}
		})
	}
}

func TestOnlySomeNamespacesCanBeSourcesAndTargets(t *testing.T) {
	const ask = "ask an administrator to add it to the value secretShare.namespaces"
	r := compile(t, v1alpha1.SecretCopySpec{Targets: v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"shop", "s*"}}})
	r.Only = []string{r.Namespace, "shop"}
	if !r.Targets("shop", nil) || r.Targets("stage", nil) || !r.Protects("stage") {
		t.Error("a namespace of the list gets no copies, or another one does")
	}
	if got := r.InvalidTarget() + r.InvalidSource(); got != "" {
		t.Error(got)
	}
	r.Only = []string{"other"}
	if got, want := r.InvalidTarget(), "spec.targets.names contains the namespace shop, to which the installation does not copy Secrets: remove it, or "+ask; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := r.InvalidSource(), "the installation does not share Secrets of the namespace "+r.Namespace+": "+ask; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTargets(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	for name, tc := range map[string]struct {
		targets v1alpha1.SecretTargets
		want    []string
	}{
		"all except its own and system namespaces": {v1alpha1.SecretTargets{}, []string{"shop", "shop-test"}},
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

// A tool would take a copy with its own metadata for its own object.
func TestMetadataOfToolsIsCopiedOnlyByItsWholeKey(t *testing.T) {
	const argo, applied = "argocd.argoproj.io/secret-type", corev1.LastAppliedConfigAnnotation
	secret := source(func(s *corev1.Secret) {
		s.Labels = map[string]string{argo: "cluster", "bongsu.io/x": "y"}
		s.Annotations = map[string]string{applied: "{}"}
	})
	for name, tc := range map[string]struct {
		keys    []v1alpha1.MetadataGlob
		copied  bool
		leftOut []string
	}{
		"all":                {[]v1alpha1.MetadataGlob{"*"}, false, []string{"label " + argo}},
		"a glob":             {[]v1alpha1.MetadataGlob{"argocd.argoproj.io/*"}, false, []string{"label " + argo}},
		"the whole key":      {[]v1alpha1.MetadataGlob{argo}, true, nil},
		"the key and a glob": {[]v1alpha1.MetadataGlob{argo, "*"}, true, nil},
		"private keys":       {[]v1alpha1.MetadataGlob{"bongsu.io/x", applied}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rule := compile(t, v1alpha1.SecretCopySpec{CopyLabels: tc.keys, CopyAnnotations: tc.keys})
			got, refusal := rule.Copy(secret)
			if refusal != nil {
				t.Fatal(refusal)
			}
			if copied := got.Labels[argo] != ""; copied != tc.copied || got.Labels["bongsu.io/x"] != "" || got.Annotations[applied] != "" {
				t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
			}
			if diff := cmp.Diff(tc.leftOut, rule.LeftOut(secret)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnlyARuleOfTheSameNamespaceReplacesCopiesOfItsPredecessor(t *testing.T) {
	copyOf := func(uid, namespaceUID string) *corev1.Secret {
		r, err := Compile(Definition{UID: uid, Name: "SecretShare/vault/ca", Namespace: "vault"})
		if err != nil {
			t.Fatal(err)
		}
		copied, _ := r.In(namespaceUID).Copy(source())
		return copied
	}
	for name, tc := range map[string]struct {
		former, present string // UIDs of the namespace
		want            Action
	}{
		"the same namespace":             {"1", "1", Replace},
		"a namespace that was recreated": {"1", "2", Conflict},
		"a copy of an unknown namespace": {"", "1", Conflict},
		"the namespace is not known":     {"", "", Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Compare(copyOf("former", tc.former), copyOf("present", tc.present)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestASecretShareNeverCopiesMetadataOfTools(t *testing.T) {
	const argo = "argocd.argoproj.io/secret-type"
	r, err := Compile(Definition{UID: "rule", Name: "SecretShare/vault/ca", Namespace: "vault", Spec: v1alpha1.SecretCopySpec{CopyLabels: []v1alpha1.MetadataGlob{argo}}})
	if err != nil {
		t.Fatal(err)
	}
	secret := source(func(s *corev1.Secret) { s.Labels = map[string]string{argo: "cluster"} })
	if got, _ := r.Copy(secret); got.Labels[argo] != "" {
		t.Errorf("labels %v", got.Labels)
	}
	if diff := cmp.Diff([]string{"label " + argo}, r.LeftOut(secret)); diff != "" {
		t.Error(diff)
	}
}
