package secretshare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// simulation runs the controllers without an API server, one step at a time and in
// any order. Its faults interrupt their requests.
type simulation struct {
	*Model
	t   *testing.T
	rng *rand.Rand
	// store is the API server, and requests is how the controllers see it.
	store, requests client.WithWatch
	controllers     *Controllers
	// rules and items wait to be reconciled, lateRules and lateItems only after a delay.
	rules, lateRules map[ruleRequest]struct{}
	items, lateItems map[Item]struct{}
	// watch are the watch events of Secrets that the controllers have not received yet.
	watch []func(kube.SecretListener)
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
	}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		s.must(add(scheme))
	}
	s.store = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		// Without managed fields, which cost most of the time.
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.ClusterSecretShare{}, &v1alpha1.SecretShare{}).Build(), s.apiServer())
	s.requests = interceptor.NewClient(s.store, s.faults())
	s.Client = s.store
	s.start()
	for _, name := range s.Sources {
		s.must(s.store.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, name := range s.Targets {
		s.must(s.store.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.TargetLabels()}}))
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

// apiServer does what the fake client does not: it sets UIDs and generations, checks
// UIDs, and notifies the controllers.
func (s *simulation) apiServer() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.created++
			o.SetUID(types.UID(fmt.Sprint("uid-", s.created)))
			o.SetGeneration(1)
			return s.after(c.Create(ctx, o, opts...), o, false)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := s.checkUID(ctx, c, o, o.GetUID()); err != nil {
				return err
			}
			o.SetGeneration(o.GetGeneration() + 1)
			return s.after(c.Update(ctx, o, opts...), o, false)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.after(c.Patch(ctx, o, patch, opts...), o, false)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var asked client.DeleteOptions
			asked.ApplyOptions(opts)
			if p := asked.Preconditions; p != nil {
				if err := s.checkUID(ctx, c, o, *p.UID); err != nil {
					return err
				}
			}
			return s.after(c.Delete(ctx, o, opts...), o, true)
		},
	}
}

func (s *simulation) checkUID(ctx context.Context, c client.Client, o client.Object, uid types.UID) error {
	now := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil || now.GetUID() == uid {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("secrets"), o.GetName(), errors.New("the UID is another"))
}

// after notifies the controllers of a change.
func (s *simulation) after(err error, o client.Object, deleted bool) error {
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *corev1.Secret:
		if deleted {
			name := client.ObjectKeyFromObject(o)
			s.watch = append(s.watch, func(l kube.SecretListener) { l.Gone(s.t.Context(), name) })
		} else {
			s.watch = append(s.watch, seen(s.t.Context(), o))
		}
	case *corev1.Namespace, *v1alpha1.SecretShareGrant, Object:
		s.rules[s.request()] = struct{}{}
	}
	return nil
}

func seen(ctx context.Context, o *corev1.Secret) func(kube.SecretListener) {
	meta := kube.SecretMeta{
		NamespacedName: client.ObjectKeyFromObject(o), UID: o.UID, Version: o.ResourceVersion,
		Labels: maps.Clone(o.Labels), Annotations: maps.Clone(o.Annotations),
	}
	return func(l kube.SecretListener) { l.Seen(ctx, meta) }
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

// interrupt is what happens in the middle of a request: an error, or something else.
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
		// A rule that is being read must not change: the model knows no plan of two states.
		if s.planning {
			s.change(sourceChanges)
		} else {
			s.change(otherChanges)
			s.reconcileRule()
		}
	}
	return nil
}

// start starts the controllers, which know nothing but what they read and receive.
func (s *simulation) start() {
	s.log("start the operator")
	s.rules, s.lateRules = map[ruleRequest]struct{}{s.request(): {}}, map[ruleRequest]struct{}{}
	s.items, s.lateItems = map[Item]struct{}{}, map[Item]struct{}{}
	s.controllers = New(Dependencies{Client: s.requests, Live: s.requests, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry()})
	s.controllers.book.obey(func(i Item) { s.items[i] = struct{}{} })
	for _, r := range s.controllers.rules {
		s.controllers.book.listen(r.kind, func(key kube.Key) { s.rules[ruleRequest{r.kind, key.NamespacedName()}] = struct{}{} })
	}
	s.list()
}

// list begins the watch again: what it had not delivered is lost.
func (s *simulation) list() {
	s.log("list the Secrets")
	var list corev1.SecretList
	s.must(s.store.List(s.t.Context(), &list))
	s.watch = nil
	exists := map[types.NamespacedName]bool{}
	for i := range list.Items {
		exists[client.ObjectKeyFromObject(&list.Items[i])] = true
		s.watch = append(s.watch, seen(s.t.Context(), &list.Items[i]))
	}
	s.watch = append(s.watch, func(l kube.SecretListener) {
		l.Listed(s.t.Context(), func(name types.NamespacedName) bool { return exists[name] })
	})
}

func (s *simulation) log(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf(format, args...))
}

// step does one random thing.
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
	case n < 60:
		s.deliver()
	case n < 80:
		s.reconcileRule()
	default:
		s.reconcileItem()
	}
}

// change makes one of the changes, or any.
func (s *simulation) change(changes map[string]change) {
	s.t.Helper()
	what, err := "", error(nil)
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
		event(s.controllers.book)
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

func (s *simulation) reconcileItem() {
	item, ok := takeAny(s.rng, s.items, func(a, b Item) int { return cmp.Compare(a.Namespace, b.Namespace) })
	if !ok {
		return
	}
	s.log("reconcile the copies in %s", item.Namespace)
	result, err := s.controllers.copier.Reconcile(s.t.Context(), item)
	s.must(err)
	if result.RequeueAfter > 0 && result.RequeueAfter <= lastRetry {
		s.lateItems[item] = struct{}{}
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

// settle runs everything that waits, without faults, and compares the result with the
// model.
func (s *simulation) settle() {
	s.t.Helper()
	s.calm = true
	defer func() { s.calm = false }()
	s.log("settle")
	for range 10 {
		for len(s.watch)+len(s.rules)+len(s.items) > 0 {
			s.deliver()
			s.reconcileRule()
			s.reconcileItem()
		}
		maps.Copy(s.rules, s.lateRules)
		maps.Copy(s.items, s.lateItems)
		clear(s.lateRules)
		clear(s.lateItems)
	}
	s.must(s.Observe(s.t.Context()))
	s.must(s.Check(s.t.Context()))
	s.must(s.Settled(s.t.Context()))
}

// sequences is how many random sequences are tried. Each has rounds of changes, and a
// check after each round.
const (
	sequences = 300
	rounds    = 8
)

func TestCopiesAreAsDemandedAfterAnySequenceOfChanges(t *testing.T) {
	for seed := range uint64(sequences) {
		kind := []string{v1alpha1.KindSecretShare, v1alpha1.KindClusterSecretShare}[seed%2]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, kind, seed)
			s.prepare()
			for range rounds {
				for range 1 + s.rng.IntN(10) {
					s.step()
				}
				s.settle()
			}
		})
	}
}

// prepare creates the rule and its sources, and waits for the copies.
func (s *simulation) prepare() {
	s.t.Helper()
	s.must(s.Prepare(s.t.Context()))
	s.settle()
}
