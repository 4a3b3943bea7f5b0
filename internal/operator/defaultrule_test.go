package operator_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// An installation without the default rule can have it later.
func TestTheDefaultRuleIsCreatedOnlyIfItIsWanted(t *testing.T) {
	c, g := cluster.Start(t), NewWithT(t)
	rule := func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Name: "secretsync"}, &v1alpha1.ClusterSecretShare{})
	}
	unwanted := c.StartOperator(t, func(o *options.Options) { o.DefaultShare = false })
	// Another rule shows that the policies are checked: the default one would exist by now.
	source := c.Namespace(t, nil)
	g.Expect(c.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source, Name: "shared"}})).To(Succeed())
	other := cluster.Manifest(t, "ClusterSecretShare", "", "other", "source: {namespace: "+source+", names: [shared]}\ntargets: {}")
	g.Expect(c.Client.Create(t.Context(), other)).To(Succeed())
	g.Eventually(func() ([]metav1.Condition, error) {
		var share v1alpha1.ClusterSecretShare
		err := c.Client.Get(t.Context(), client.ObjectKey{Name: "other"}, &share)
		return share.Status.Conditions, err
	}).WithTimeout(patience).Should(ContainElement(And(HaveField("Type", v1alpha1.ConditionReady), HaveField("Status", metav1.ConditionTrue))))
	g.Expect(rule()).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	g.Expect(unwanted.Stop()).To(Succeed())

	c.StartOperator(t)
	g.Eventually(rule).WithTimeout(patience).Should(Succeed())
}
