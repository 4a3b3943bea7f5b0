package secretshare

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// valuesIn returns the bytes of all values of Secrets that can be reached. It does not
// follow interfaces, because the client contains the API server of the test.
func valuesIn(v reflect.Value, seen map[uintptr]bool) int {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return 0
		}
		seen[v.Pointer()] = true
		return valuesIn(v.Elem(), seen)
	case reflect.Struct:
		n := 0
		for _, field := range v.Fields() {
			n += valuesIn(field, seen)
		}
		return n
	case reflect.Map:
		n := 0
		for _, key := range v.MapKeys() {
			n += valuesIn(v.MapIndex(key), seen)
		}
		return n
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.Len() == 0 || seen[v.Pointer()] {
				return 0
			}
			seen[v.Pointer()] = true
			return v.Len()
		}
		n := 0
		for i := range v.Len() {
			n += valuesIn(v.Index(i), seen)
		}
		return n
	default:
		return 0
	}
}

func (r *fixture) valuesInMemory() int {
	return valuesIn(reflect.ValueOf(r.controllers.store), map[uintptr]bool{}) +
		valuesIn(reflect.ValueOf(r.controllers.syncer.contents), map[uintptr]bool{})
}

// largeSecrets creates Secrets of maximum size in the namespace source.
func (r *fixture) largeSecrets(n int) (names []string) {
	r.t.Helper()
	for i := range n {
		name := fmt.Sprintf("large-%02d", i)
		r.must(r.Create(r.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: name}, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"key": bytes.Repeat([]byte{byte(i)}, corev1.MaxSecretSize)},
		}))
		names = append(names, name)
	}
	return names
}

// addRule creates another rule and makes its plan.
func (r *fixture) addRule(name string, spec v1alpha1.ClusterSecretShareSpec) {
	r.t.Helper()
	r.must(r.Create(r.t.Context(), &v1alpha1.ClusterSecretShare{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, CreationTimestamp: metav1.Now()}, Spec: spec,
	}))
	r.reconcileNamed(name) // adds the finalizer
	r.reconcileNamed(name)
}

func (r *fixture) reconciler() *Reconciler {
	for _, reconciler := range r.controllers.rules {
		if reconciler.kind == v1alpha1.KindClusterSecretShare {
			return reconciler
		}
	}
	return nil
}

func (r *fixture) reconcileNamed(name string) reconcile.Result {
	r.t.Helper()
	result, err := r.reconciler().Reconcile(r.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	r.must(err)
	return result
}

func shareOf(names ...string) v1alpha1.ClusterSecretShareSpec {
	return v1alpha1.ClusterSecretShareSpec{Source: v1alpha1.ClusterSecretSource{
		Namespace: "source", SecretSource: v1alpha1.SecretSource{Names: names},
	}}
}

func TestRulesKeepNoDataOfTheirSources(t *testing.T) {
	r := newFixture(t)
	names := r.largeSecrets(16)
	for i := range 10 {
		r.addRule(fmt.Sprint("rule-", i), shareOf(names...))
	}
	r.sync()
	if got := r.valuesInMemory(); got > maxNamespaceContents || got == 0 {
		t.Errorf("%d bytes of values are in memory, want at most %d", got, maxNamespaceContents)
	}
}

func TestARuleWithoutTargetsReadsNoSecret(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.exclude()
	r.requests = nil
	r.converge()
	if slices.Contains(r.requests, "get source/shared") {
		t.Error("the source was read")
	}
	r.expectReady(v1alpha1.ReasonReady)

	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Targets.Exclude = nil })
	r.converge()
	r.expectCopy("first")
}

func (r *fixture) addTargets(n int) {
	r.t.Helper()
	for i := range n {
		r.must(r.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("target-", i)}}))
	}
}

func (r *fixture) sourceReads() int {
	n := 0
	for _, request := range r.requests {
		if request == "get source/shared" {
			n++
		}
	}
	return n
}

func TestAVersionOfASourceIsReadOnceForAllTargets(t *testing.T) {
	r := newFixture(t)
	r.addTargets(100)
	for _, value := range []string{"first", "second"} {
		r.putSource(value)
		r.requests = nil
		r.converge()
		if n := r.sourceReads(); n != 1 {
			t.Errorf("the source was read %d times, want 1", n)
		}
		r.expectCopy(value)
	}
}

// drop removes all contents from memory, as if other Secrets had been read since.
func (c *contents) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Purge()
}

func TestASourceIsReadAgainIfItIsNoLongerInMemory(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.controllers.syncer.contents.drop()
	r.sync()
	r.expectCopy("first")
}

// The watch delivers the change later.
func TestASourceThatChangesBeforeItIsCopiedLeadsToNoOtherCopy(t *testing.T) {
	changes := map[string]func(*fixture, *corev1.Secret){
		"edited": func(r *fixture, source *corev1.Secret) {
			source.Data = map[string][]byte{"key": []byte("second")}
			r.must(r.Update(t.Context(), source))
		},
		"deleted": func(r *fixture, source *corev1.Secret) { r.must(r.Delete(t.Context(), source)) },
		"recreated as a copy": func(r *fixture, source *corev1.Secret) {
			r.must(r.Delete(t.Context(), source))
			source.ResourceVersion = ""
			source.Annotations = map[string]string{"bongsu.io/rule-uid": "another", "bongsu.io/source-uid": "another"}
			r.must(r.Create(t.Context(), source))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.putSource("first")
			r.reconcileRule()
			r.controllers.syncer.contents.drop()
			var source corev1.Secret
			r.must(r.Get(t.Context(), client.ObjectKey{Namespace: "source", Name: "shared"}, &source))
			change(r, &source)
			item := r.queue[0]
			r.sync()
			r.expectNoCopy()
			if r.retries[0] != minRetry {
				t.Errorf("the retry is after %s, want %s", r.retries[0], minRetry)
			}

			r.reconcileRule()
			r.queue = append(r.queue, item)
			r.converge()
			if name == "edited" {
				r.expectCopy("second")
				r.expectReady(v1alpha1.ReasonReady)
			} else {
				r.expectNoCopy()
			}
		})
	}
}

func TestASourceThatCannotBeReadForACopyIsReported(t *testing.T) {
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.controllers.syncer.contents.drop()
	r.readError = apierrors.NewServiceUnavailable("etcd leader changed at 10.0.0.1")
	item := r.queue[0]
	r.sync()
	r.expectNoCopy()
	r.readError = nil
	r.reconcileRule()
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
	if got := r.retries; !slices.Equal(got, []time.Duration{minRetry}) {
		t.Errorf("the retries are after %v, want %s", got, minRetry)
	}
	r.queue = append(r.queue, item)
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
}

func TestContentsStayBelowTheirLimits(t *testing.T) {
	c := newContents(nil)
	for i := range 100 {
		for _, size := range []int{1 << 20, 10} {
			c.keep(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i%5), Name: fmt.Sprint(i, size)},
				Data:       map[string][]byte{"key": make([]byte, size)},
			})
			total := 0
			for namespace, n := range c.bytesOf {
				total += n
				if n > maxNamespaceContents {
					t.Fatalf("%d bytes are of namespace %s", n, namespace)
				}
			}
			if total != c.size() || total > maxContents {
				t.Fatalf("%d bytes, and %d in total", total, c.size())
			}
		}
	}
	if _, ok := c.lookup(sourceVersion{types.NamespacedName{Namespace: "ns-4", Name: "99 10"}, share.VersionOf("", "")}); !ok {
		t.Error("the last Secret is not kept")
	}
	c.drop()
	if c.size() != 0 || len(c.bytesOf) != 0 {
		t.Errorf("%d bytes remain", c.size())
	}
}

// blockedReader counts the reads that wait, and ends them when the channel is closed.
type blockedReader struct {
	client.Reader
	end     chan struct{}
	waiting atomic.Int32
}

func (r *blockedReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	r.waiting.Add(1)
	<-r.end
	return nil
}

func TestFewSecretsAreReadAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &blockedReader{end: make(chan struct{})}
		c := newContents(reader)
		var group errgroup.Group
		for i := range 5 * maxReads {
			group.Go(func() error {
				_, err := c.read(t.Context(), types.NamespacedName{Namespace: "source", Name: fmt.Sprint(i)})
				return err
			})
		}
		synctest.Wait()
		if n := reader.waiting.Load(); n != maxReads {
			t.Errorf("%d Secrets are being read, want %d", n, maxReads)
		}
		close(reader.end)
		if err := group.Wait(); err != nil || reader.waiting.Load() != 5*maxReads {
			t.Errorf("%d Secrets were read: %v", reader.waiting.Load(), err)
		}
	})
}
