package steady

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// share creates rules of both kinds. Some work. Others fail because of a foreign Secret, a
// missing source, or a missing grant.
func share(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, name := range []string{"secretsync", "source", "free", "blocked"} {
		create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	secret(t, c, "source", "shared", corev1.SecretTypeOpaque)
	secret(t, c, "source", "granted", corev1.SecretTypeOpaque)
	secret(t, c, "blocked", "shared", corev1.SecretTypeOpaque)
	for name, spec := range map[string]string{
		"works":         "source: {namespace: source, names: [shared]}\ntargets: {names: [free]}",
		"conflicts":     "source: {namespace: source, names: [shared]}\ntargets: {names: [blocked]}",
		"has-no-source": "source: {namespace: nowhere, names: [shared]}\ntargets: {}",
	} {
		create(t, c, cluster.Manifest(t, v1alpha1.KindClusterSecretShare, "", name, spec))
	}
	create(t, c, cluster.Manifest(t, "SecretShareGrant", "free", "grant", "from: [{namespace: source}]"))
	for name, targets := range map[string]string{"granted": "free", "not-granted": "blocked"} {
		create(t, c, cluster.Manifest(t, v1alpha1.KindSecretShare, "source", name,
			"source: {names: [granted]}\ntargets: {names: ["+targets+"]}"))
	}
}

func secret(t *testing.T, c *cluster.Cluster, namespace, name string, kind corev1.SecretType) {
	t.Helper()
	create(t, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind,
		Data: map[string][]byte{"key": []byte("value")},
	})
}

// awaitShares waits until all rules have the expected reason. The default rule gets its
// Secret only now: the operator suspends the rule if it has a Secret at the first start.
func awaitShares(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	awaitShare(t, c, &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}}, v1alpha1.ReasonReady)
	secret(t, c, "secretsync", "supersecret", "bongsu.io/secretsync")
	for name, want := range map[string]string{
		"secretsync": v1alpha1.ReasonReady, "works": v1alpha1.ReasonReady, "conflicts": v1alpha1.ReasonConflict,
		"has-no-source": v1alpha1.ReasonSourceNotFound,
	} {
		awaitShare(t, c, &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: name}}, want)
	}
	for name, want := range map[string]string{"granted": v1alpha1.ReasonReady, "not-granted": v1alpha1.ReasonNotGranted} {
		awaitShare(t, c, &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: name}}, want)
	}
}

func awaitShare(t *testing.T, c *cluster.Cluster, rule secretshare.Object, want string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
			return "", err
		}
		return cluster.Reason(rule), nil
	}).Should(gomega.Equal(want), "%T %s", rule, rule.GetName())
}

func create(t *testing.T, c *cluster.Cluster, o client.Object) {
	t.Helper()
	if err := c.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}
