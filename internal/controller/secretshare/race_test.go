package secretshare

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// race is a rule "rule" that shares Secret source/shared with namespace target,
// driven by hand: what else happens, happens amid a request.
type race struct {
	t *testing.T
	client.WithWatch
	controllers *Controllers
	queue       []Item
	// created is called once, when the API server has taken the copy and nobody has
	// been told; read likewise, when it has answered what the source is.
	created, read func()
	// refusal is what the API server answers to whoever creates something in target.
	refusal error
}

func newRace(t *testing.T) *race {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &race{t: t, created: func() {}, read: func() {}}
	once := func(f *func()) {
		happens := *f
		*f = func() {}
		happens()
	}
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	r.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.ClusterSecretShare{}).
		WithObjects(namespace("source"), namespace("target"), &v1alpha1.ClusterSecretShare{
			ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "rule-uid", Generation: 1},
			Spec: v1alpha1.ClusterSecretShareSpec{Source: v1alpha1.ClusterSecretSource{
				Namespace: "source", SecretSource: v1alpha1.SecretSource{Names: []string{"shared"}},
			}},
		}).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetNamespace() == "target" && r.refusal != nil {
				return r.refusal
			}
			o.SetUID(types.UID("uid-of-" + o.GetNamespace()))
			err := c.Create(ctx, o, opts...)
			if o.GetNamespace() == "target" {
				once(&r.created)
			}
			return err
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if key.Namespace == "source" {
				once(&r.read)
			}
			return err
		},
	})
	r.controllers = New(Dependencies{Client: r, Live: r, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry()})
	r.book().obey(func(i Item) { r.queue = append(r.queue, i) })
	r.book().Listed(t.Context(), func(types.NamespacedName) bool { return false })
	r.plan() // puts the finalizer on it
	return r
}

func (r *race) book() *book { return r.controllers.book }

func (r *race) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// plan reconciles the rule.
func (r *race) plan() {
	r.t.Helper()
	for _, reconciler := range r.controllers.rules {
		if reconciler.kind == v1alpha1.KindClusterSecretShare {
			_, err := reconciler.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "rule"}})
			r.must(err)
		}
	}
}

// settle carries out all that is queued, as often as it is, and reconciles the rule
// after that.
func (r *race) settle() {
	r.t.Helper()
	for range 5 {
		r.carryOut()
		r.plan()
	}
}

func (r *race) carryOut() {
	r.t.Helper()
	for len(r.queue) > 0 {
		item := r.queue[0]
		r.queue = r.queue[1:]
		_, err := r.controllers.copier.Reconcile(r.t.Context(), item)
		r.must(err)
	}
}

// put creates the source or changes it; the book is told.
func (r *race) put(value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared"}}
	err := r.Get(r.t.Context(), client.ObjectKeyFromObject(secret), secret)
	secret.Data = map[string][]byte{"key": []byte(value)}
	if apierrors.IsNotFound(err) {
		r.must(r.Create(r.t.Context(), secret))
	} else {
		r.must(r.Update(r.t.Context(), secret))
	}
	r.tell(secret)
}

// tell tells the book of a Secret.
func (r *race) tell(s *corev1.Secret) {
	r.book().Seen(r.t.Context(), kube.SecretMeta{
		NamespacedName: client.ObjectKeyFromObject(s), UID: s.UID, Version: s.ResourceVersion, Annotations: s.Annotations,
	})
}

func (r *race) expectCopy(value string) {
	r.t.Helper()
	var secret corev1.Secret
	r.must(r.Get(r.t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &secret))
	if got := string(secret.Data["key"]); got != value {
		r.t.Errorf("the copy holds %q, want %q", got, value)
	}
}

func (r *race) expectNoCopy() {
	r.t.Helper()
	err := r.Get(r.t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		r.t.Errorf("the copy is still there: %v", err)
	}
}

func (r *race) rule() (*v1alpha1.ClusterSecretShare, error) {
	rule := &v1alpha1.ClusterSecretShare{}
	return rule, r.Get(r.t.Context(), client.ObjectKey{Name: "rule"}, rule)
}

func TestASourceThatIsCreatedWhileItIsLookedForIsCopied(t *testing.T) {
	r := newRace(t)
	r.read = func() { r.put("first") }
	r.plan()
	r.settle()
	r.expectCopy("first")
}

func TestASourceThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.read = func() { r.put("second") }
	r.plan()
	r.settle()
	r.expectCopy("second")

	r.put("third")
	r.read = func() { r.put("fourth") }
	r.plan()
	r.settle()
	r.expectCopy("fourth")
}

func TestACopyThatIsCreatedWhileItsRuleIsNarrowedIsRemoved(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.created = func() {
		rule, err := r.rule()
		r.must(err)
		rule.Spec.Targets.Exclude, rule.Generation = []v1alpha1.NamespaceGlob{"target"}, 2
		r.must(r.Update(t.Context(), rule))
		r.plan()
	}
	r.settle()
	r.expectNoCopy()
}

func TestARuleThatIsDeletedWhileACopyIsCreatedTakesItAlong(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.created = func() {
		rule, err := r.rule()
		r.must(err)
		r.must(r.Delete(t.Context(), rule))
		r.plan()
		if _, err := r.rule(); err != nil {
			t.Errorf("the rule is gone while a copy is being created: %v", err)
		}
	}
	r.settle()
	r.expectNoCopy()
	if _, err := r.rule(); !apierrors.IsNotFound(err) {
		t.Errorf("the rule is still there: %v", err)
	}
}

func TestACopyThatOthersTouchBeforeTheAnswerComesIsRepaired(t *testing.T) {
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	for name, touch := range map[string]func(r *race, copied *corev1.Secret){
		"edited": func(r *race, copied *corev1.Secret) {
			copied.Data["key"] = []byte("edited")
			r.must(r.Update(t.Context(), copied))
			r.tell(copied)
		},
		"deleted": func(r *race, copied *corev1.Secret) {
			r.must(r.Delete(t.Context(), copied))
			r.book().Gone(t.Context(), key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRace(t)
			r.put("first")
			r.plan()
			r.created = func() {
				var copied corev1.Secret
				r.must(r.Get(t.Context(), key, &copied))
				r.tell(&copied)
				touch(r, &copied)
			}
			r.settle()
			r.expectCopy("first")
		})
	}
}

// The rule is not reconciled between the two: it sees no difference but the UID.
func TestANamespaceThatIsDeletedAndCreatedAgainAtOnceGetsItsCopy(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	r.must(r.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	r.refusal = apierrors.NewNotFound(corev1.Resource("namespaces"), "target")
	r.book().Gone(t.Context(), key)
	r.carryOut()
	r.expectNoCopy()

	r.refusal = nil
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target"}}
	r.must(r.Delete(t.Context(), again.DeepCopy()))
	again.UID = "another"
	r.must(r.WithWatch.Create(t.Context(), again))
	r.settle()
	r.expectCopy("first")
}
