package chaos

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// sharing are rules that share the secret, by what becomes of it: of which type it
// is, what more a rule asks for, and what the target holds it against.
var sharing = map[string]struct {
	kind   corev1.SecretType
	more   string
	target func(s *stage, namespace string)
	want   string
}{
	"copied":    {more: `copyAnnotations: ["*"]`, want: v1alpha1.ReasonReady},
	"blocked":   {target: (*stage).foreign, want: v1alpha1.ReasonConflict},
	"quoted":    {target: refuser("'it holds ' + string(object.data.value)"), want: v1alpha1.ReasonCopyFailed},
	"untyped":   {kind: corev1.SecretTypeDockerConfigJson, more: "keys: [{from: value, to: .dockerconfigjson}]", want: v1alpha1.ReasonCopyFailed},
	"keyless":   {more: "keys: [{from: none}]", want: v1alpha1.ReasonKeyNotFound},
	"no-target": {more: "suspend: true", want: v1alpha1.ReasonSuspended},
}

// secretShares makes the rules, each with a namespace to which it shares.
func (s *stage) secretShares() {
	s.t.Helper()
	for name, share := range sharing {
		target := s.Namespace(s.t, map[string]string{"gets": name})
		if share.target != nil {
			share.target(s, target)
		}
		s.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation: `{"stringData":{"value":"` + secret + `"}}`,
			}},
			Type: share.kind, Data: map[string][]byte{"value": []byte(secret), corev1.DockerConfigJsonKey: []byte(`{"` + secret + `":{}}`)},
		})
		spec := fmt.Sprintf("source: {namespace: %s, names: [%s]}\ntargets: {namespaceSelector: {matchLabels: {gets: %[2]s}}}\n%s",
			s.namespace, name, share.more)
		s.create(cluster.Manifest(s.t, v1alpha1.KindClusterSecretShare, "", name, spec))
		s.create(cluster.Manifest(s.t, v1alpha1.KindSecretShare, s.namespace, name,
			strings.Replace(spec, "namespace: "+s.namespace+", ", "", 1)))
	}
}

// foreign puts Secrets of other people where the copies should be.
func (s *stage) foreign(namespace string) {
	s.t.Helper()
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "blocked", Annotations: map[string]string{"note": secret}},
		Data:       map[string][]byte{"value": []byte(secret)},
	})
}

// refuser has a namespace refuse Secrets, with a message that quotes them.
func refuser(message string) func(*stage, string) {
	return func(s *stage, namespace string) {
		s.t.Helper()
		s.Deny(s.t, namespace, "secrets", message, admissionv1.Create, admissionv1.Update)
		s.expectQuoted(namespace)
	}
}

// expectQuoted fails if what is refused is not quoted.
func (s *stage) expectQuoted(namespace string) {
	s.t.Helper()
	err := s.Client.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Data: map[string][]byte{"value": []byte(secret)},
	}, client.DryRunAll)
	if err == nil {
		s.t.Fatal("nothing is refused")
	}
	for _, trace := range traces {
		if strings.Contains(err.Error(), trace) {
			return
		}
	}
	s.t.Fatalf("the policy does not quote the secret: %v", err)
}

// unshared lists the rules that do not fare as they should so far.
func (s *stage) unshared() []string {
	s.t.Helper()
	var open []string
	for name, share := range sharing {
		var rule v1alpha1.ClusterSecretShare
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, &rule); err != nil {
			s.t.Fatal(err)
		}
		if reason := cluster.Reason(&rule); reason != share.want {
			open = append(open, fmt.Sprintf("%s: %s", name, reason))
		}
	}
	return open
}

// copies returns what is told of the copy besides its value.
func (s *stage) copies() string {
	s.t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	var all strings.Builder
	if err := s.Client.List(s.t.Context(), list, client.HasLabels{"bongsu.io/rule-uid"}); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		fmt.Fprintln(&all, list.Items[i].ObjectMeta)
	}
	return all.String()
}
