package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// The garbage collector would delete the objects of the app: they still have an owner
// reference.
func TestAnAppIsNotDeletedBeforeTheOperatorHasSeenThatItsObjectsStay(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	s := sceneIn(t, c)
	operator := c.StartOperator(t)
	s.create("size: 1")
	s.awaitReady()
	s.g.Expect(operator.Stop()).To(Succeed())
	s.createNamed("new", "size: 1\ndeletionPolicy: Retain")
	remove := func(name string) error {
		return s.Client.Delete(t.Context(), &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
	}
	s.g.Expect(remove("new")).To(Succeed(), "it has no objects yet")
	refused := And(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring("the operator has not processed spec.backup or spec.deletionPolicy yet")))
	s.change(func(a *v1alpha1.AppService) { a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	s.g.Expect(remove("web")).To(refused)
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
		a.Spec.Backup = &v1alpha1.Backup{Exec: &v1alpha1.ExecCheck{Command: []string{"true"}}}
	})
	s.g.Expect(remove("web")).To(refused)
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.DeletionPolicy, a.Spec.Backup = v1alpha1.DeletionPolicyRetain, nil
	})
	c.StartOperator(t)
	// The API server can lose a finalizer that is added while it handles the deletion.
	s.g.Eventually(func() []string { return s.now().Finalizers }).WithTimeout(patience).Should(ContainElement(v1alpha1.FinalizerBackup))
	s.g.Expect(remove("web")).To(Succeed())
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.g.Expect(s.deployment()).To(And(Not(BeNil()), HaveField("DeletionTimestamp", BeNil()), HaveField("OwnerReferences", BeEmpty())))
}

func TestAChangeToRetainDoesNotDelayTheDeletionOfANamespace(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	s := sceneIn(t, c)
	operator := c.StartOperator(t)
	s.create("size: 1")
	s.awaitReady()
	s.g.Expect(operator.Stop()).To(Succeed())
	s.change(func(a *v1alpha1.AppService) { a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	s.g.Expect(s.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
	for _, o := range []client.Object{&v1alpha1.AppService{}, &appsv1.Deployment{}} {
		s.g.Eventually(s.isGone(o, "web")).WithTimeout(patience).Should(BeTrue())
	}
}

// kubectl delete --cascade=orphan keeps the objects of an app, like Retain. The next AppService
// with this name takes them. With a backup, the operator would delete them after the backup.
func TestCascadeOrphanKeepsTheObjectsOrIsRefused(t *testing.T) {
	t.Parallel()
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	const byCommand = "\nbackup: {exec: {command: ['true']}}"
	for name, tc := range map[string]struct {
		spec    string
		options client.DeleteOption
		refused bool
	}{
		"no backup":                {"", orphan, false},
		"Retain":                   {"\ndeletionPolicy: Retain", orphan, false},
		"Retain with a backup":     {"\ndeletionPolicy: Retain" + byCommand, orphan, false},
		"a backup":                 {byCommand, orphan, true},
		"a backup, an old client":  {byCommand, &client.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: new(true)}}, true}, //nolint:staticcheck // users still can
		"a backup, in the cluster": {byCommand, client.PropagationPolicy(metav1.DeletePropagationBackground), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create("size: 1\nports: [{name: http, containerPort: 8080}]" + tc.spec)
			s.awaitReady()
			before := s.deployment().UID
			err := s.Client.Delete(t.Context(), s.now(), tc.options)
			if tc.refused {
				s.g.Expect(err).To(And(MatchError(apierrors.IsForbidden, "IsForbidden"),
					MatchError(ContainSubstring("set spec.deletionPolicy to Retain, or omit --cascade=orphan"))))
				s.g.Expect(s.now().DeletionTimestamp).To(BeNil())
				return
			}
			s.g.Expect(err).NotTo(HaveOccurred())
			s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
			if tc.options != orphan {
				s.awaitGone()
				return
			}
			s.g.Consistently(s.deployment, "3s").Should(And(Not(BeNil()), HaveField("DeletionTimestamp", BeNil()), HaveField("OwnerReferences", BeEmpty())))
			s.create("size: 2")
			s.awaitReady()
			s.g.Expect(s.deployment()).To(And(HaveField("UID", before), HaveField("OwnerReferences", HaveLen(1))))
			s.g.Eventually(s.isGone(&corev1.Service{}, "web")).WithTimeout(patience).Should(BeTrue(), "the new app has no ports")
		})
	}
}
