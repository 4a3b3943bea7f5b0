package secretshare

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// recreateNamespace replaces the source's namespace. Another tenant owns the new one.
func (r *fixture) recreateNamespace(uid types.UID) {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "source"}}
	r.must(r.Delete(r.t.Context(), ns))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared"}}
	r.must(client.IgnoreNotFound(r.Delete(r.t.Context(), secret)))
	r.store().OnDelete(r.t.Context(), client.ObjectKeyFromObject(secret))
	r.must(r.WithWatch.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "source"}}))
	r.must(r.Get(r.t.Context(), client.ObjectKey{Name: "source"}, ns))
	ns.UID = uid
	r.must(r.Update(r.t.Context(), ns))
}

func TestNothingIsCopiedFromARecreatedNamespaceUntilTheRuleIsWrittenAgain(t *testing.T) {
	for name, restart := range map[string]bool{"while the operator runs": false, "while it is down": true} {
		t.Run(name, func(t *testing.T) {
			r := newSyncedFixture(t)
			r.recreateNamespace("another")
			if restart {
				r.start(r.secret("target"))
			}
			r.putSource("theirs")
			r.converge()
			r.expectReady(v1alpha1.ReasonSourceRecreated)
			r.expectCopy("first") // what has been copied stays until an administrator decides
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.CopyLabels = []v1alpha1.MetadataGlob{"*"} })
			r.converge()
			r.expectCopy("theirs")
			r.expectReady(v1alpha1.ReasonReady)
		})
	}
}

func TestASourceWhoseNamespaceIsRecreatedDuringTheReadIsNotCopied(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.afterRead = func() { r.recreateNamespace("another"); r.putSource("theirs") }
	r.reconcileRule()
	r.converge()
	r.expectReady(v1alpha1.ReasonSourceRecreated)
	r.expectNoCopy()
}

func TestNoCopyIsWrittenBeforeTheNamespaceOfItsSourceIsRecorded(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.statusError = apierrors.NewServiceUnavailable("")
	for _, reconciler := range r.controllers.rules {
		if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "rule"}}); err == nil && reconciler.kind == v1alpha1.KindClusterSecretShare {
			t.Error("no error, so nothing retries")
		}
	}
	r.sync()
	r.expectNoCopy()
	r.statusError = nil
	r.converge()
	r.expectCopy("first")
}

func TestANamespaceThatCannotBeReadIsNotAnotherOne(t *testing.T) {
	r := newSyncedFixture(t)
	r.start(r.secret("target"))
	r.namespaceError = apierrors.NewServiceUnavailable("")
	r.putSource("second")
	r.converge()
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
	r.expectCopy("first")
	r.namespaceError = nil
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	r.expectCopy("second")
}

// A grant has generation 2.
func TestTheNamespaceThatAGrantNamesIsRecordedByItsUID(t *testing.T) {
	recorded := func(uid string, generation int64) []v1alpha1.NamespaceIdentity {
		return []v1alpha1.NamespaceIdentity{{Namespace: "source", UID: uid, Generation: generation}}
	}
	const none = ""
	failed := apierrors.NewServiceUnavailable("")
	for name, tc := range map[string]struct {
		before       []v1alpha1.NamespaceIdentity
		cached, live types.UID
		liveError    error
		want         []v1alpha1.NamespaceIdentity
		recreated    []string
	}{
		"a new grant":                                    {nil, "a", "a", nil, recorded("a", 2), nil},
		"a new grant and an old cache":                   {nil, "a", "b", nil, recorded("b", 2), nil},
		"a new grant before its namespace":               {nil, none, none, nil, nil, nil},
		"nothing changed":                                {recorded("a", 2), "a", none, failed, recorded("a", 2), nil},
		"the namespace is deleted":                       {recorded("a", 2), none, none, failed, recorded("a", 2), nil},
		"the namespace is deleted, and the cache is old": {recorded("b", 2), "a", none, nil, recorded("b", 2), nil},
		"the namespace is recreated":                     {recorded("a", 2), "b", "b", nil, recorded("a", 2), []string{"source"}},
		"the cache is older than the record":             {recorded("b", 2), "a", "b", nil, recorded("b", 2), nil},
		"the spec is written again":                      {recorded("a", 1), "a", "a", failed, recorded("a", 2), nil},
		"the spec is written for the recreated one":      {recorded("a", 1), "b", "b", nil, recorded("b", 2), nil},
		"the spec is written after the deletion":         {recorded("a", 1), none, none, nil, nil, nil},
		"the API server fails":                           {recorded("a", 1), "b", none, failed, recorded("a", 1), nil},
		"the API server fails after the deletion":        {recorded("a", 1), none, none, failed, recorded("a", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			grant := &v1alpha1.SecretShareGrant{
				ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "grant", Generation: 2},
				Spec:       v1alpha1.SecretShareGrantSpec{From: []v1alpha1.SecretShareGrantFrom{{Namespace: "source"}}},
				Status:     v1alpha1.SecretShareGrantStatus{From: tc.before},
			}
			r := &grantReconciler{client: withNamespace(t, tc.cached, nil), live: withNamespace(t, tc.live, tc.liveError)}
			recreated, err := r.recordSources(t.Context(), grant)
			if diff := cmp.Diff(tc.want, grant.Status.From); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.recreated, recreated); diff != "" {
				t.Error(diff)
			}
			if failing := tc.liveError != nil && cmp.Diff(tc.before, tc.want) == "" && tc.before[0].Generation == 1; failing != (err != nil) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// withNamespace returns a client of an API server with the namespace "source", unless its UID
// is empty. Reads of namespaces fail with readError.
func withNamespace(t *testing.T, uid types.UID, readError error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if uid != "" {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "source", UID: uid}})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.SecretShareGrant{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key.Name == "source" && readError != nil {
					return readError
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
}
