package secretshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// fixture has a rule "rule" that shares Secret source/shared with namespace target. The
// test runs the controllers step by step, and can make changes in the middle of a request.
type fixture struct {
	created int
	t       *testing.T
	clock   *clocktesting.FakePassiveClock
	client.WithWatch
	controllers *Controllers
	queue       []workItem
	// afterCreate is called once, after the API server has created the copy and before the
	// watch delivers it. afterRead is called once, after a read of the source.
	afterCreate, afterRead func()
	// protected are namespaces in which a policy refuses writes of existing Secrets.
	protected []string
	// createError is the response to every create in target.
	createError error
	// readError is the response to every read of the source.
	readError error
	// patchError is the response to every patch, statusError to every update of a status, and
	// namespaceError to every read of a namespace.
	patchError, statusError, namespaceError error
	// retries are the delays that the syncer asked for.
	retries []time.Duration
	// copyReads counts the reads of the copy.
	copyReads int
	// requests are all requests that a cache cannot answer.
	requests []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), afterCreate: func() {}, afterRead: func() {}}
	once := func(f *func()) {
		call := *f
		*f = func() {}
		call()
	}
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("namespace-" + name)}}
	}
	r.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.ClusterSecretShare{}, &v1alpha1.SecretShare{}, &v1alpha1.SecretShareGrant{}).
		WithIndex(&corev1.Secret{}, "type", func(o client.Object) []string { return []string{string(o.(*corev1.Secret).Type)} }).
		WithObjects(namespace("source"), namespace("target"), &v1alpha1.ClusterSecretShare{
			ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "rule-uid", Generation: 1},
			Spec: v1alpha1.ClusterSecretShareSpec{Source: v1alpha1.ClusterSecretSource{
				Namespace: "source", SecretSource: v1alpha1.SecretSource{Names: []string{"shared"}},
			}},
		}).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			r.record("create", o)
			if o.GetNamespace() == "target" && r.createError != nil {
				return r.createError
			}
			r.created++ // no two objects have the same UID
			o.SetUID(types.UID(fmt.Sprint("uid-", r.created)))
			err := c.Create(ctx, o, opts...)
			if o.GetNamespace() == "target" {
				once(&r.afterCreate)
			}
			return err
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isSecret := o.(*corev1.Secret); isSecret {
				r.requests = append(r.requests, "get "+key.String())
			}
			if key.Namespace == "source" && r.readError != nil {
				return r.readError
			}
			if key.Name == "source" && r.namespaceError != nil {
				return r.namespaceError
			}
			err := c.Get(ctx, key, o, opts...)
			if key.Namespace == "target" {
				r.copyReads++
			}
			if key.Namespace == "source" {
				once(&r.afterRead)
			}
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			r.record("update", o)
			if slices.Contains(r.protected, o.GetNamespace()) {
				return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
			}
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			r.record("patch", o)
			if r.patchError != nil {
				return r.patchError
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			r.record("delete", o)
			if slices.Contains(r.protected, o.GetNamespace()) {
				return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			r.record("update "+sub+" of", o)
			if r.statusError != nil {
				return r.statusError
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	r.start()
	r.reconcileRule() // adds the finalizer
	return r
}

func (r *fixture) record(verb string, o client.Object) {
	r.requests = append(r.requests, verb+" "+client.ObjectKeyFromObject(o).String())
}

// start starts new controllers, and lists these Secrets.
func (r *fixture) start(secrets ...*corev1.Secret) {
	r.t.Helper()
	r.startUnlisted()
	for _, s := range secrets {
		r.observe(s)
	}
	r.store().OnList(r.t.Context(), func(types.NamespacedName) bool { return true })
}

// startUnlisted starts new controllers before the first list of Secrets.
func (r *fixture) startUnlisted() {
	r.t.Helper()
	r.queue = nil
	r.controllers = New(Dependencies{Client: r, Live: r, Namespace: "bongsu-system", Protected: r.protected, Clock: r.clock, Metrics: prometheus.NewRegistry()})
	r.store().setSyncQueue(func(i workItem) { r.queue = append(r.queue, i) })
}

func (r *fixture) store() *store { return r.controllers.store }

func (r *fixture) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *fixture) reconcileRule() {
	r.t.Helper()
	for _, reconciler := range r.controllers.rules {
		if reconciler.kind == v1alpha1.KindClusterSecretShare {
			_, err := reconciler.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "rule"}})
			r.must(err)
		}
	}
}

// converge repeats to sync what is queued and to reconcile the rule.
func (r *fixture) converge() {
	r.t.Helper()
	for range 5 {
		r.sync()
		r.reconcileRule()
	}
}

func (r *fixture) sync() {
	r.t.Helper()
	for len(r.queue) > 0 {
		item := r.queue[0]
		r.queue = r.queue[1:]
		result, err := r.controllers.syncer.Reconcile(r.t.Context(), item)
		r.must(err)
		r.retries = append(r.retries, result.RequeueAfter)
	}
}

// putSource creates or changes the source. The store observes it.
func (r *fixture) putSource(value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared"}}
	err := r.Get(r.t.Context(), client.ObjectKeyFromObject(secret), secret)
	secret.Type = corev1.SecretTypeOpaque // the default of the API server
	secret.Data = map[string][]byte{"key": []byte(value)}
	if apierrors.IsNotFound(err) {
		r.must(r.Create(r.t.Context(), secret))
	} else {
		r.must(r.Update(r.t.Context(), secret))
	}
	r.observe(secret)
}

// observe delivers a watch event of a Secret to the store.
func (r *fixture) observe(s *corev1.Secret) {
	r.store().OnUpdate(r.t.Context(), kube.SecretMeta{
		NamespacedName: client.ObjectKeyFromObject(s), UID: s.UID, Version: s.ResourceVersion, Annotations: s.Annotations, Held: heldBy(s),
	})
}

func heldBy(s *corev1.Secret) []string {
	if s.DeletionTimestamp == nil {
		return nil
	}
	return s.Finalizers
}

func (r *fixture) expectCopy(value string) {
	r.t.Helper()
	var secret corev1.Secret
	r.must(r.Get(r.t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &secret))
	if got := string(secret.Data["key"]); got != value {
		r.t.Errorf("the copy has %q, want %q", got, value)
	}
}

func (r *fixture) expectNoCopy() {
	r.t.Helper()
	err := r.Get(r.t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		r.t.Errorf("the copy still exists: %v", err)
	}
}

func (r *fixture) rule() (*v1alpha1.ClusterSecretShare, error) {
	rule := &v1alpha1.ClusterSecretShare{}
	return rule, r.Get(r.t.Context(), client.ObjectKey{Name: "rule"}, rule)
}

func TestASourceThatIsCreatedDuringTheReadIsCopied(t *testing.T) {
	r := newFixture(t)
	r.afterRead = func() { r.putSource("first") }
	r.reconcileRule()
	r.converge()
	r.expectCopy("first")
}

func TestASourceThatChangesDuringTheReadIsReadAgain(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.afterRead = func() { r.putSource("second") }
	r.reconcileRule()
	r.converge()
	r.expectCopy("second")

	r.putSource("third")
	r.afterRead = func() { r.putSource("fourth") }
	r.reconcileRule()
	r.converge()
	r.expectCopy("fourth")
}

func TestACopyThatIsCreatedWhileItsRuleIsNarrowedIsRemoved(t *testing.T) {
	for name, narrow := range map[string]func(*fixture){
		"immediately": (*fixture).exclude,
		"after a suspension": func(r *fixture) {
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = true })
			r.reconcileRule()
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = false })
			r.exclude()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.putSource("first")
			r.reconcileRule()
			r.afterCreate = func() { narrow(r); r.reconcileRule() }
			r.converge()
			r.expectNoCopy()
		})
	}
}

func TestUnwantedCopiesAreRemovedAtTheStart(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	var copied corev1.Secret
	r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &copied))
	r.exclude()
	r.start(&copied)
	r.converge()
	r.expectNoCopy()
}

func (r *fixture) change(spec func(*v1alpha1.ClusterSecretShareSpec)) {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	spec(&rule.Spec)
	rule.Generation++
	r.must(r.Update(r.t.Context(), rule))
}

// exclude removes target from the rule.
func (r *fixture) exclude() {
	r.t.Helper()
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Targets.Exclude = []v1alpha1.NamespaceGlob{"target"} })
}

func TestACopyThatIsCreatedWhileItsRuleIsDeletedIsRemoved(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.afterCreate = func() {
		rule, err := r.rule()
		r.must(err)
		r.must(r.Delete(t.Context(), rule))
		r.reconcileRule()
		if _, err := r.rule(); err != nil {
			t.Errorf("the rule is deleted while a copy is being created: %v", err)
		}
	}
	r.converge()
	r.expectNoCopy()
	if _, err := r.rule(); !apierrors.IsNotFound(err) {
		t.Errorf("the rule still exists: %v", err)
	}
}

func TestACopyThatOthersChangeBeforeTheResponseArrivesIsRepaired(t *testing.T) {
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	for name, edit := range map[string]func(r *fixture, copied *corev1.Secret){
		"edited": func(r *fixture, copied *corev1.Secret) {
			copied.Data["key"] = []byte("edited")
			r.must(r.Update(t.Context(), copied))
			r.observe(copied)
		},
		"deleted": func(r *fixture, copied *corev1.Secret) {
			r.must(r.Delete(t.Context(), copied))
			r.store().OnDelete(t.Context(), key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.putSource("first")
			r.reconcileRule()
			r.afterCreate = func() {
				var copied corev1.Secret
				r.must(r.Get(t.Context(), key, &copied))
				r.observe(&copied)
				edit(r, &copied)
			}
			r.converge()
			r.expectCopy("first")
		})
	}
}

// The rule is not reconciled between the two changes. Only the UID is different then.
func TestANamespaceThatIsDeletedAndCreatedAgainAtOnceGetsItsCopy(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	r.must(r.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	r.createError = apierrors.NewNotFound(corev1.Resource("namespaces"), "target")
	r.store().OnDelete(t.Context(), key)
	r.sync()
	r.expectNoCopy()

	r.createError = nil
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target"}}
	r.must(r.Delete(t.Context(), namespace.DeepCopy()))
	namespace.UID = "another"
	r.must(r.WithWatch.Create(t.Context(), namespace))
	r.converge()
	r.expectCopy("first")
}

func TestASourceThatCannotBeReadKeepsItsCopies(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()

	r.putSource("second")
	r.readError = apierrors.NewForbidden(corev1.Resource("secrets"), "shared", nil)
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
	var copied corev1.Secret
	r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &copied))
	r.start(&copied)
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceUnreadable)

	r.readError = nil
	r.converge()
	r.expectCopy("second")
	r.expectReady(v1alpha1.ReasonReady)
}

func (r *fixture) expectReady(reason string) {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	if ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != reason {
		r.t.Errorf("Ready is %v, want %s", ready, reason)
	}
}

func TestRefusedWritesAreRetriedWithBackoff(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.createError = apierrors.NewForbidden(corev1.Resource("secrets"), "shared", nil)
	r.reconcileRule()
	item := r.queue[0]
	for range 10 {
		r.sync()
		r.reconcileRule() // must not shorten the backoff
		if len(r.queue) > 0 {
			t.Fatal("the copy is retried without a delay")
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
	r.createError, r.retries = nil, nil
	r.converge()
	r.expectCopy("first")
	if diff := cmp.Diff([]time.Duration{0}, r.retries); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnchangedCopyIsUpdatedWithoutARead(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.putSource("second")
	r.converge()
	if r.copyReads > 0 {
		t.Errorf("the copy was read %d times", r.copyReads)
	}
	r.expectCopy("second")
}

func TestAnnotationsThatOthersAddAreKeptBeforeTheyAreObserved(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	var copied corev1.Secret
	key := types.NamespacedName{Namespace: "target", Name: "shared"}
	r.must(r.Get(t.Context(), key, &copied))
	copied.Annotations["example.com/checked"] = "yes"
	r.must(r.Update(t.Context(), &copied))
	for _, value := range []string{"second", "third"} {
		r.putSource(value)
		r.converge()
		r.expectCopy(value)
		r.must(r.Get(t.Context(), key, &copied))
		if copied.Annotations["example.com/checked"] != "yes" {
			t.Error("the annotation is missing")
		}
	}
}

func TestARuleIsNotReadyUntilItsChangesAreSynced(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	r.putSource("second")
	r.reconcileRule()
	r.expectReady(v1alpha1.ReasonCopying)
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)

	r.exclude()
	r.reconcileRule()
	r.expectReady(v1alpha1.ReasonCopying)
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
}

// replaceUnobserved replaces the copy with a foreign Secret. The store does not observe
// it.
func (r *fixture) replaceUnobserved() {
	r.t.Helper()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared"}, Data: map[string][]byte{"key": []byte("foreign")}}
	r.must(r.Delete(r.t.Context(), foreign.DeepCopy()))
	r.must(r.Create(r.t.Context(), foreign))
	foreign.Labels = map[string]string{"bongsu.io/rule-uid": "theirs"}
	r.must(r.Update(r.t.Context(), foreign)) // to get another version than the copy
}

func TestAForeignSecretThatReplacedACopyUnobservedIsNotChanged(t *testing.T) {
	retain := func(spec *v1alpha1.ClusterSecretShareSpec) { spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }
	for name, change := range map[string]func(*fixture){
		"when the rule is deleted": func(r *fixture) {
			rule, err := r.rule()
			r.must(err)
			r.must(r.Delete(t.Context(), rule))
		},
		"when the source changes":        func(r *fixture) { r.putSource("second") },
		"when a rule retains its copies": func(r *fixture) { r.change(retain); r.exclude() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.putSource("first")
			r.reconcileRule()
			r.converge()
			r.replaceUnobserved()
			change(r)
			r.reconcileRule()
			r.sync()
			r.expectCopy("foreign")
			var foreign corev1.Secret
			r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "target", Name: "shared"}, &foreign))
			if foreign.Labels["bongsu.io/rule-uid"] != "theirs" {
				t.Errorf("the labels are %v", foreign.Labels)
			}
		})
	}
}

func TestTheStatusNamesLabelsOfToolsThatAreNotCopied(t *testing.T) {
	const argo = "argocd.argoproj.io/secret-type"
	r := newSyncedFixture(t)
	source := r.secret("source")
	source.Labels = map[string]string{argo: "cluster"}
	r.must(r.Update(t.Context(), source))
	r.observe(source)
	for _, tc := range []struct {
		keys    []v1alpha1.MetadataGlob
		message string
		copied  bool
	}{
		{[]v1alpha1.MetadataGlob{"*"}, "not copied, because a tool would take the copies for its own objects: label " + argo, false},
		{[]v1alpha1.MetadataGlob{argo}, share.UpToDate, true},
	} {
		r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.CopyLabels = tc.keys })
		r.reconcileRule()
		r.converge()
		rule, err := r.rule()
		r.must(err)
		ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, tc.message) || tc.copied == strings.Contains(ready.Message, "not copied") {
			t.Errorf("%v: %+v", tc.keys, ready)
		}
		if copied := r.secret("target").Labels[argo] != ""; copied != tc.copied {
			t.Errorf("%v: labels %v", tc.keys, r.secret("target").Labels)
		}
	}
}

// A backup, or a rule that is deleted and created again, leaves copies of a rule that no longer exists.
func TestCopiesOfAFormerRuleOfTheSameNameAreReplaced(t *testing.T) {
	r := newSyncedFixture(t)
	copied := r.secret("target")
	copied.Labels[share.LabelRuleUID], copied.Annotations[share.AnnotationRuleUID] = "former", "former"
	copied.Data = map[string][]byte{"key": []byte("old")}
	r.must(r.Update(t.Context(), copied))
	r.start(r.secret("source"), copied)
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
	if now := r.secret("target"); now.Annotations[share.AnnotationRuleUID] == "former" {
		t.Errorf("annotations %v", now.Annotations)
	}
}

func TestACopyThatCannotBeWrittenSaysWhatToDo(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	quota := apierrors.NewForbidden(secrets, "shared", errors.New("exceeded quota: none, requested: secrets=1, used: secrets=2, limited: secrets=2"))
	denied := apierrors.NewForbidden(secrets, "shared", errors.New("ValidatingAdmissionPolicy 'p' denied request: is hunter2"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "shared", field.ErrorList{field.Invalid(field.NewPath("data"), "hunter2", "no")})
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a quota":      {quota, `Secret "shared" is rejected: ResourceQuota "none" is exceeded: secrets: requested 1, used 2 of 2: delete secrets that you do not need, or ask for a larger quota`},
		"a policy":     {denied, `Secret "shared" is rejected: admission policy "p" forbids it: is [redacted]: change the source or the rule accordingly, or ask the cluster's administrator`},
		"details":      {invalid, `Secret "shared" is rejected: data: Invalid value: "[redacted]": no: correct the field`},
		"overloaded":   {apierrors.NewTooManyRequestsError("wait"), "Too many requests: wait"},
		"another text": {errors.New("hunter2"), "[redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			redacted := share.Redact(tc.err.Error(), &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2")}})
			if got := withAdvice("shared", redacted, tc.err); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
