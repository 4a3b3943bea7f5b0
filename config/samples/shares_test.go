package samples_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestEachSampleShareCopiesWhatItSays(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	g := NewWithT(t)
	objects, err := samples.Shares()
	g.Expect(err).NotTo(HaveOccurred())
	apply(t, c, objects)
	shop, sandbox := c.Namespace(t, map[string]string{"team": "shop"}), "shop-sandbox"
	g.Expect(c.Client.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: sandbox, Labels: map[string]string{"team": "shop"}},
	})).To(Succeed())

	for name, tc := range map[string]struct {
		source    corev1.Secret
		rule      shareObject
		keys      []string
		goes, not string
	}{
		"registry-credentials": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "registry"},
				Type:       corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: "{}"},
			},
			rule: &v1alpha1.ClusterSecretShare{}, keys: []string{corev1.DockerConfigJsonKey}, goes: shop, not: sandbox,
		},
		"ca-certificate": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "company-ca"},
				StringData: map[string]string{"tls.crt": "certificate", "tls.key": "key"},
			},
			rule: &v1alpha1.ClusterSecretShare{}, keys: []string{"ca.crt"}, goes: sandbox, not: "kube-system",
		},
		"database": {
			source: corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: "database"},
				StringData: map[string]string{"user": "orders", "password": "correct-horse"},
			},
			rule: &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: "orders"}},
			keys: []string{"password", "user"}, goes: "reports", not: shop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.Client.Create(t.Context(), &tc.source)).To(Succeed())
			g.Eventually(keysIn(t, c, tc.goes, tc.source.Name)).Should(Equal(tc.keys))
			tc.rule.SetName(name)
			g.Eventually(func() bool { return inForce(t, c, tc.rule) }).Should(BeTrue(), "it is not Ready")
			g.Expect(keysIn(t, c, tc.not, tc.source.Name)()).To(BeNil())
		})
	}
}

// shareObject is a SecretShare or a ClusterSecretShare.
type shareObject interface {
	client.Object
	ShareStatus() *v1alpha1.SecretShareStatus
}

func inForce(t *testing.T, c *cluster.Cluster, rule shareObject) bool {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); err != nil {
		return false
	}
	return slices.ContainsFunc(rule.ShareStatus().Conditions, func(condition metav1.Condition) bool {
		return condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue
	})
}

// keysIn are the keys of a Secret, nil if there is none.
func keysIn(t *testing.T, c *cluster.Cluster, namespace, name string) func() []string {
	t.Helper()
	return func() []string {
		var secret corev1.Secret
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
			return nil
		}
		var keys []string
		for key := range secret.Data {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return keys
	}
}
