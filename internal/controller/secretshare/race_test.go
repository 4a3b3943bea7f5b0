package secretshare

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// unreadable is what it answers to whoever reads the source.
	unreadable error
	// unpatched is what it answers to whoever puts a finalizer on the rule.
	unpatched error
	// retries are when items asked to be carried out again.
	retries []time.Duration
	// looks is how often the copy was read.
	looks int
	// requests are what was asked of the API server, but for what a cache answers.
	requests []string
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
			r.note("create", o)
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
			if _, isSecret := o.(*corev1.Secret); isSecret {
				r.requests = append(r.requests, "get "+key.String())
			}
			if key.Namespace == "source" && r.unreadable != nil {
				return r.unreadable
			}
			err := c.Get(ctx, key, o, opts...)
			if key.Namespace == "target" {
				r.looks++
			}
			if key.Namespace == "source" {
				once(&r.read)
			}
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			r.note("update", o)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			r.note("patch", o)
			if r.unpatched != nil {
				return r.unpatched
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			r.note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			r.note("update "+sub+" of", o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	r.start()
	r.plan() // puts the finalizer on it
	return r
}

// note notes a request.
func (r *race) note(verb string, o client.Object) {
	r.requests = append(r.requests, verb+" "+client.ObjectKeyFromObject(o).String())
}

// start starts the controllers, which know nothing then but what is listed.
func (r *race) start(secrets ...*corev1.Secret) {
	r.t.Helper()
	r.startUntold()
	for _, s := range secrets {
		r.tell(s)
	}
	r.book().Listed(r.t.Context(), func(types.NamespacedName) bool { return true })
}

// startUntold starts the controllers before anything is listed.
func (r *race) startUntold() {
	r.t.Helper()
	r.queue = nil
	r.controllers = New(Dependencies{Client: r, Live: r, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry()})
	r.book().obey(func(i Item) { r.queue = append(r.queue, i) })
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
		result, err := r.controllers.copier.Reconcile(r.t.Context(), item)
		r.must(err)
		r.retries = append(r.retries, result.RequeueAfter)
	}
}

// put creates the source or changes it; the book is told.
func (r *race) put(value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared"}}
	err := r.Get(r.t.Context(), client.ObjectKeyFromObject(secret), secret)
	secret.Type = corev1.SecretTypeOpaque // as the API server would
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
	for name, narrow := range map[string]func(*race){
		"at once": (*race).exclude,
		"after it was suspended": func(r *race) {
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = true })
			r.plan()
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = false })
			r.exclude()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRace(t)
			r.put("first")
			r.plan()
			r.created = func() { narrow(r); r.plan() }
			r.settle()
			r.expectNoCopy()
		})
	}
}

func TestWhatARuleNoLongerMeansIsRemovedAtTheStart(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	var copied corev1.Secret
	r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &copied))
	r.exclude()
	r.start(&copied)
	r.settle()
	r.expectNoCopy()
}

// change changes the rule, exclude so that it no longer means target.
func (r *race) change(spec func(*v1alpha1.ClusterSecretShareSpec)) {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	spec(&rule.Spec)
	rule.Generation++
	r.must(r.Update(r.t.Context(), rule))
}

func (r *race) exclude() {
	r.t.Helper()
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Targets.Exclude = []v1alpha1.NamespaceGlob{"target"} })
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

func TestASourceThatCannotBeReadKeepsItsCopies(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()

	r.put("second")
	r.unreadable = apierrors.NewForbidden(corev1.Resource("secrets"), "shared", nil)
	r.settle()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
	var copied corev1.Secret
	r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &copied))
	r.start(&copied)
	r.settle()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceUnreadable)

	r.unreadable = nil
	r.settle()
	r.expectCopy("second")
	r.expectReady(v1alpha1.ReasonReady)
}

func (r *race) expectReady(reason string) {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	if ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != reason {
		r.t.Errorf("Ready is %v, want %s", ready, reason)
	}
}

func TestWhatIsRefusedIsTriedAgainLaterAndLater(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.refusal = apierrors.NewForbidden(corev1.Resource("secrets"), "shared", nil)
	r.plan()
	item := r.queue[0]
	for range 10 {
		r.carryOut()
		r.plan() // which does not have it tried before its time
		if len(r.queue) > 0 {
			t.Fatal("it is tried again at once")
		}
		r.queue = append(r.queue, item)
	}
	var want []time.Duration
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 120, 120, 120} {
		want = append(want, time.Duration(seconds)*time.Second)
	}
	if diff := cmp.Diff(want, r.retries); diff != "" {
		t.Error(diff)
	}
	r.refusal, r.retries = nil, nil
	r.settle()
	r.expectCopy("first")
	if diff := cmp.Diff([]time.Duration{0}, r.retries); diff != "" {
		t.Error(diff)
	}
}

func TestACopyThatIsAsItWasWrittenIsNotReadBeforeItIsWrittenAgain(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	r.put("second")
	r.settle()
	if r.looks > 0 {
		t.Errorf("it was read %d times", r.looks)
	}
	r.expectCopy("second")
}

func TestWhatOthersPutOnACopyStaysThoughNobodyHasToldYet(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	var copied corev1.Secret
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	r.must(r.Get(t.Context(), key, &copied))
	copied.Annotations["example.com/checked"] = "yes"
	r.must(r.Update(t.Context(), &copied))
	for _, value := range []string{"second", "third"} {
		r.put(value)
		r.settle()
		r.expectCopy(value)
		r.must(r.Get(t.Context(), key, &copied))
		if copied.Annotations["example.com/checked"] != "yes" {
			t.Error("the annotation is gone")
		}
	}
}

func TestARuleIsNotReadyUntilWhatChangedIsCarriedOut(t *testing.T) {
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	r.expectReady(v1alpha1.ReasonReady)
	r.put("second")
	r.plan()
	r.expectReady(v1alpha1.ReasonCopying)
	r.settle()
	r.expectReady(v1alpha1.ReasonReady)

	r.exclude()
	r.plan()
	r.expectReady(v1alpha1.ReasonCopying)
	r.settle()
	r.expectReady(v1alpha1.ReasonReady)
}

// replaceUntold puts somebody else's Secret in the copy's place, of which the book is
// not told.
func (r *race) replaceUntold() {
	r.t.Helper()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared"}, Data: map[string][]byte{"key": []byte("foreign")}}
	r.must(r.Delete(r.t.Context(), foreign.DeepCopy()))
	r.must(r.Create(r.t.Context(), foreign))
	foreign.Labels = map[string]string{"bongsu.io/rule-uid": "theirs"}
	r.must(r.Update(r.t.Context(), foreign)) // so that its version is not that of the copy
}

func TestASecretThatTookTheCopysPlaceUntoldIsNotTouched(t *testing.T) {
	retain := func(spec *v1alpha1.ClusterSecretShareSpec) { spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }
	for name, happen := range map[string]func(*race){
		"when the rule is deleted": func(r *race) {
			rule, err := r.rule()
			r.must(err)
			r.must(r.Delete(t.Context(), rule))
		},
		"when the source changes":        func(r *race) { r.put("second") },
		"when a rule retains its copies": func(r *race) { r.change(retain); r.exclude() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRace(t)
			r.put("first")
			r.plan()
			r.settle()
			r.replaceUntold()
			happen(r)
			r.plan()
			r.carryOut()
			r.expectCopy("foreign")
			var foreign corev1.Secret
			r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &foreign))
			if foreign.Labels["bongsu.io/rule-uid"] != "theirs" {
				t.Errorf("its labels are %v", foreign.Labels)
			}
		})
	}
}
