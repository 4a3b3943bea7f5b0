package secretshare

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// simulation runs the controllers step by step, in any order, without an API server. Its
// faults interrupt their requests.
type simulation struct {
	*Model
	t   *testing.T
	rng *rand.Rand
	// server is the API server. requests is the client of the controllers.
	server, requests client.WithWatch
	controllers      *Controllers
	// rules, grants and workItems are the queues. lateRules and lateWorkItems are due after a
	// delay.
	rules, lateRules         map[ruleRequest]struct{}
	grants                   map[types.NamespacedName]struct{}
	workItems, lateWorkItems map[workItem]struct{}
	// watch are the watch events of Secrets that the controllers have not received yet.
	watch []func(kube.SecretHandler)
	clock *clocktesting.FakePassiveClock
	// calm means that there are no faults.
	calm bool
	// planning means that the rule is being reconciled.
	planning bool
	created  int
	history  []string
}

type ruleRequest struct {
	kind string
	types.NamespacedName
}

// newSimulation has two source namespaces and three targets, and no rule yet.
func newSimulation(t *testing.T, kind string, seed uint64) *simulation {
	t.Helper()
	s := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 0)), Model: &Model{
		Kind: kind, Rule: "rule", Sources: []string{"source", "other"}, Targets: []string{"one", "two", "three"},
		Grace: []int32{0, 0, 3, 3}[seed%4],
	}, clock: clocktesting.NewFakePassiveClock(time.Now())}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		s.must(add(scheme))
	}
	s.server = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		// Without the real managed fields, which cost most of the time.
		WithReturnManagedFields().
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.ClusterSecretShare{}, &v1alpha1.SecretShare{}, &v1alpha1.SecretShareGrant{}).Build(), s.serverBehavior())
	s.requests = interceptor.NewClient(s.server, s.faults())
	s.Client = s.server
	s.start()
	for _, name := range s.Sources {
		s.must(s.server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, name := range s.Targets {
		s.must(s.server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.TargetLabels()}}))
	}
	s.must(s.Observe(t.Context()))
	return s
}

func (s *simulation) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, strings.Join(s.history, "\n"))
	}
}

// setManager sets the managed fields of a Secret that a client creates, or updates from before.
func setManager(o client.Object, before *corev1.Secret, manager string) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	entry := metav1.ManagedFieldsEntry{Manager: cmp.Or(manager, "user"), FieldsV1: metav1.NewFieldsV1(`{"f:data": {"f:x": {}}, "f:type": {}}`)}
	switch {
	case before != nil && maps.EqualFunc(before.Data, secret.Data, bytes.Equal):
		secret.ManagedFields = before.ManagedFields
	case before == nil || entry.Manager == share.FieldOwner:
		secret.ManagedFields = []metav1.ManagedFieldsEntry{entry}
	default:
		secret.ManagedFields = slices.Concat(before.ManagedFields, []metav1.ManagedFieldsEntry{entry})
	}
}

// serverBehavior adds what the fake client lacks: it sets UIDs, generations and managed fields, checks
// UIDs, and notifies the controllers.
func (s *simulation) serverBehavior() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.created++
			o.SetUID(types.UID(fmt.Sprint("uid-", s.created)))
			o.SetGeneration(1)
			setManager(o, nil, (&client.CreateOptions{}).ApplyOptions(opts).FieldManager)
			return s.notify(c.Create(ctx, o, opts...), o, false)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := s.checkUID(ctx, c, o, o.GetUID()); err != nil {
				return err
			}
			o.SetGeneration(o.GetGeneration() + 1)
			if _, ok := o.(*corev1.Secret); ok {
				before := &corev1.Secret{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), before); err != nil {
					return err
				}
				setManager(o, before, (&client.UpdateOptions{}).ApplyOptions(opts).FieldManager)
			}
			return s.notify(c.Update(ctx, o, opts...), o, false)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.notify(c.Patch(ctx, o, patch, opts...), o, false)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var asked client.DeleteOptions
			asked.ApplyOptions(opts)
			if p := asked.Preconditions; p != nil {
				if err := s.checkUID(ctx, c, o, *p.UID); err != nil {
					return err
				}
			}
			return s.notify(c.Delete(ctx, o, opts...), o, true)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if _, ok := o.(*v1alpha1.SecretShareGrant); ok {
				s.rules[s.request()] = struct{}{}
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}
}

func (s *simulation) checkUID(ctx context.Context, c client.Client, o client.Object, uid types.UID) error {
	now := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil || now.GetUID() == uid {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("secrets"), o.GetName(), errors.New("the UID is different"))
}

// notify notifies the controllers of a change.
func (s *simulation) notify(err error, o client.Object, deleted bool) error {
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *corev1.Secret:
		if deleted {
			name := client.ObjectKeyFromObject(o)
			s.watch = append(s.watch, func(l kube.SecretHandler) { l.OnDelete(s.t.Context(), name) })
		} else {
			s.watch = append(s.watch, updateOf(s.t.Context(), o))
		}
	case *v1alpha1.SecretShareGrant:
		s.rules[s.request()] = struct{}{}
		s.grants[client.ObjectKeyFromObject(o)] = struct{}{}
	case *corev1.Namespace, Object:
		s.rules[s.request()] = struct{}{}
	}
	return nil
}

func updateOf(ctx context.Context, o *corev1.Secret) func(kube.SecretHandler) {
	meta := kube.SecretMeta{
		NamespacedName: client.ObjectKeyFromObject(o), UID: o.UID, Version: o.ResourceVersion,
		Labels: maps.Clone(o.Labels), Annotations: maps.Clone(o.Annotations),
	}
	return func(l kube.SecretHandler) { l.OnUpdate(ctx, meta) }
}

func (s *simulation) request() ruleRequest {
	return ruleRequest{s.Kind, client.ObjectKeyFromObject(s.newRule())}
}

// faults interrupt the controllers' requests for Secrets.
func (s *simulation) faults() interceptor.Funcs {
	wrap := func(o client.Object, request func() error) error {
		if _, ok := o.(*corev1.Secret); !ok {
			return request()
		}
		if err := s.interrupt(); err != nil {
			return err
		}
		if err := request(); err != nil {
			return err
		}
		return s.interrupt()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return wrap(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return wrap(o, func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return wrap(o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok && s.Unreadable && slices.Contains(s.Sources, key.Namespace) {
				return errFault
			}
			return wrap(o, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.SecretList); ok && s.Unreadable {
				return errFault
			}
			return c.List(ctx, list, opts...)
		},
	}
}

var errFault = apierrors.NewInternalError(errors.New("a fault"))

// interrupt returns an error in the middle of a request, or makes a change.
func (s *simulation) interrupt() error {
	if s.calm || s.rng.IntN(8) > 0 {
		return nil
	}
	s.log("in the middle of a request:")
	switch s.rng.IntN(3) {
	case 0:
		s.log("fault")
		return errFault
	case 1:
		s.deliver()
	default:
		// A rule must not change while it is read: the model has no plan of two states.
		if s.planning {
			s.change(sourceChanges)
		} else {
			s.change(otherChanges)
			s.reconcileRule()
		}
	}
	return nil
}

// start starts new controllers. They know only what they read and receive.
func (s *simulation) start() {
	s.log("start the operator")
	s.rules, s.lateRules = map[ruleRequest]struct{}{s.request(): {}}, map[ruleRequest]struct{}{}
	s.workItems, s.lateWorkItems = map[workItem]struct{}{}, map[workItem]struct{}{}
	s.grants = map[types.NamespacedName]struct{}{}
	for _, name := range s.Targets {
		s.grants[client.ObjectKeyFromObject(s.newGrant(name))] = struct{}{}
	}
	s.controllers = New(Dependencies{Client: s.requests, Live: s.requests, Namespace: "bongsu-system", RemovalDelay: RemovalDelay, Clock: s.clock, Metrics: prometheus.NewRegistry()})
	s.controllers.store.setSyncQueue(func(i workItem) { s.workItems[i] = struct{}{} })
	for _, r := range s.controllers.rules {
		s.controllers.store.setRuleQueue(r.kind, func(key kube.Key) { s.rules[ruleRequest{r.kind, key.NamespacedName()}] = struct{}{} })
	}
	s.list()
}

// list starts the watch again. Undelivered events are lost.
func (s *simulation) list() {
	s.log("list the Secrets")
	var list corev1.SecretList
	s.must(s.server.List(s.t.Context(), &list))
	s.watch = nil
	exists := map[types.NamespacedName]bool{}
	for i := range list.Items {
		exists[client.ObjectKeyFromObject(&list.Items[i])] = true
		s.watch = append(s.watch, updateOf(s.t.Context(), &list.Items[i]))
	}
	s.watch = append(s.watch, func(l kube.SecretHandler) {
		l.OnList(s.t.Context(), func(name types.NamespacedName) bool { return exists[name] })
	})
}

func (s *simulation) log(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf(format, args...))
}

// step makes one random step.
func (s *simulation) step() {
	switch n := s.rng.IntN(100); { // in percent
	case n < 35:
		s.change(nil)
	case n < 38:
		s.Unreadable = !s.Unreadable
		s.log("unreadable: %t", s.Unreadable)
		s.must(s.Observe(s.t.Context()))
	case n < 40:
		s.start()
	case n < 42:
		s.list()
	case n < 45:
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	case n < 60:
		s.deliver()
	case n < 66:
		s.reconcileGrant()
	case n < 82:
		s.reconcileRule()
	default:
		s.reconcileWorkItem()
	}
}

// change makes one of these changes, or any change.
func (s *simulation) change(changes map[string]change) {
	s.t.Helper()
	var what string
	var err error
	if changes == nil {
		what, err = s.Change(s.t.Context(), s.rng)
	} else {
		what, err = s.changeOneOf(s.t.Context(), s.rng, changes)
	}
	s.log("%s", what)
	s.must(err)
}

func (s *simulation) deliver() {
	if len(s.watch) > 0 {
		event := s.watch[0]
		s.watch = s.watch[1:]
		s.log("deliver a watch event")
		event(s.controllers.store)
	}
}

func (s *simulation) reconcileRule() {
	request, ok := takeAny(s.rng, s.rules, func(a, b ruleRequest) int { return cmp.Compare(a.kind, b.kind) })
	if !ok || s.planning {
		return
	}
	s.log("reconcile the rule")
	s.planning = true
	defer func() { s.planning = false }()
	for _, r := range s.controllers.rules {
		if r.kind != request.kind {
			continue
		}
		result, err := r.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: request.NamespacedName})
		if err != nil || result.RequeueAfter > 0 && result.RequeueAfter <= retryUnreadable {
			s.lateRules[request] = struct{}{}
		}
	}
}

func (s *simulation) reconcileGrant() {
	name, ok := takeAny(s.rng, s.grants, func(a, b types.NamespacedName) int { return cmp.Compare(a.Namespace, b.Namespace) })
	if !ok {
		return
	}
	s.log("reconcile the grant in %s", name.Namespace)
	_, err := s.controllers.grants.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: name})
	s.must(err)
}

func (s *simulation) reconcileWorkItem() {
	item, ok := takeAny(s.rng, s.workItems, func(a, b workItem) int { return cmp.Compare(a.Namespace, b.Namespace) })
	if !ok {
		return
	}
	s.log("reconcile the copies in %s", item.Namespace)
	if s.rng.IntN(2) == 0 {
		s.log("the contents of the sources are no longer in memory")
		s.controllers.syncer.contents.drop()
	}
	result, err := s.controllers.syncer.Reconcile(s.t.Context(), item)
	s.must(err)
	if result.RequeueAfter > 0 && result.RequeueAfter <= maxRetry {
		s.lateWorkItems[item] = struct{}{}
	}
}

// takeAny removes a random element of a set.
func takeAny[T comparable](rng *rand.Rand, set map[T]struct{}, compare func(a, b T) int) (T, bool) {
	if len(set) == 0 {
		var none T
		return none, false
	}
	chosen := oneOf(rng, slices.SortedFunc(maps.Keys(set), compare))
	delete(set, chosen)
	return chosen, true
}

// converge processes all queues without faults, and compares the result with the model.
func (s *simulation) converge() {
	s.t.Helper()
	s.calm = true
	defer func() { s.calm = false }()
	s.log("converge")
	for range 10 {
		for len(s.watch)+len(s.rules)+len(s.grants)+len(s.workItems) > 0 {
			s.deliver()
			s.reconcileGrant()
			s.reconcileRule()
			s.reconcileWorkItem()
		}
		maps.Copy(s.rules, s.lateRules)
		maps.Copy(s.workItems, s.lateWorkItems)
		clear(s.lateRules)
		clear(s.lateWorkItems)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	s.must(s.Observe(s.t.Context()))
	s.must(s.Check(s.t.Context()))
	s.must(s.StartRound(s.t.Context()))
}

// Each random sequence has rounds of changes, with a check after each round.
const rounds = 8

func TestCopiesConvergeAfterAnySequenceOfChanges(t *testing.T) {
	for seed := range uint64(size.Choose(t, 100, 300, 5_000, "sequences")) {
		kind := []string{v1alpha1.KindSecretShare, v1alpha1.KindClusterSecretShare}[seed%2]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, kind, seed)
			s.prepare()
			for range rounds {
				for range 1 + s.rng.IntN(10) {
					s.step()
				}
				s.converge()
			}
		})
	}
}

// prepare creates the rule and its sources, and waits for the copies.
func (s *simulation) prepare() {
	s.t.Helper()
	s.must(s.Prepare(s.t.Context()))
	s.converge()
}
