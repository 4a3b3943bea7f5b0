package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	// baselineWriters is the number of parallel requests of the baseline.
	baselineWriters = 8
	// fanOutLimit is the limit for the operator's time, as a multiple of the baseline's.
	fanOutLimit = 2.0
	// newcomers is the number of namespaces that are created later, to measure the time until
	// each has a copy.
	newcomers = 200
	// bystanders is the number of Secrets that are not shared. bystanderMemory is the limit
	// for the memory that they cost, in bytes.
	bystanders      = 5000
	bystanderSize   = 20 << 10
	bystanderMemory = 10 << 20
	// sharedType is the type of shared Secrets.
	sharedType = "bench.bongsu.io/shared"
)

// BenchmarkSecretFanOut measures the time from the creation or change of one Secret until
// its copies are in 1,000 and in 5,000 namespaces. The baseline is a program that only
// creates or updates those Secrets, with 8 parallel requests and the same client. The time
// ends when a watch has received the last copy. The operator, a separate process, may take
// twice as long. The benchmark also measures how long a new namespace waits for its copy.
func BenchmarkSecretFanOut(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		n = size.Scaled(n)
		b.Run(fmt.Sprintf("namespaces=%d", n), func(b *testing.B) {
			f := newFanOut(b, n)
			rounds := max(1, size.Scaled(3000)/n)
			b.Run("created", func(b *testing.B) { f.compare(b, rounds, f.create) })
			b.Run("updated", func(b *testing.B) { f.compare(b, rounds, f.update) })
			if n == size.Scaled(1000) {
				b.Run("namespace", f.newNamespaces)
			}
		})
	}
}

// fanOut is a cluster with namespaces, an operator and a rule.
type fanOut struct {
	*cluster.Cluster
	client     client.Client // configured like the operator's, with its permissions
	source     string
	namespaces []string
	seen       *sightings
}

func newFanOut(b *testing.B, n int) *fanOut {
	b.Helper()
	c := cluster.Start(b)
	f := &fanOut{Cluster: c, source: c.Namespace(b, nil), seen: &sightings{secrets: map[string]map[string]*corev1.Secret{}}}
	f.seen.source = f.source
	var err error
	f.client, err = cluster.ClientFor(c.OperatorConfig(b))
	must(b, err)
	for i := range n {
		f.namespaces = append(f.namespaces, fmt.Sprint("target-", i))
	}
	each(b, writers, f.namespaces, func(name string) error { return f.Client.Create(b.Context(), target(name)) })
	must(b, c.Client.Create(b.Context(), cluster.Manifest(b, v1alpha1.KindClusterSecretShare, "", "bench",
		"source: {namespace: "+f.source+", type: "+sharedType+"}\ntargets: {namespaceSelector: {matchLabels: {bench: target}}}")))
	f.seen.watch(b, c)
	startOperator(b, c, binary.Operator(b, b.TempDir()), b.TempDir())
	awaitRule(b, c)
	return f
}

func target(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": "target"}}}
}

// awaitRule waits until the operator reports that there is nothing to copy yet.
func awaitRule(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	await(b, "the operator is ready", func() bool {
		var rule v1alpha1.ClusterSecretShare
		must(b, c.Client.Get(b.Context(), client.ObjectKey{Name: "bench"}, &rule))
		ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && readCheckpoint(b, c).Position > 0
	})
}

// each calls do for all names, with a number of parallel writers.
func each(b *testing.B, writers int, names []string, do func(name string) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(writers)
	for _, name := range names {
		group.Go(func() error { return do(name) })
	}
	must(b, group.Wait())
}

// compare measures the baseline and the operator in alternation, for several rounds. do
// returns the functions that start to write the Secrets of a round.
func (f *fanOut) compare(b *testing.B, rounds int, do func(b *testing.B, round int) (baseline, operator func())) {
	b.Helper()
	for b.Loop() {
		var baseline, operator time.Duration
		for round := range rounds {
			byBaseline, byOperator := do(b, round)
			baseline += f.timed(b, fmt.Sprint("floor-", round), byBaseline)
			operator += f.timed(b, fmt.Sprint("shared-", round), byOperator)
		}
		n := float64(len(f.namespaces) * rounds)
		ratio := operator.Seconds() / baseline.Seconds()
		b.ReportMetric(n/operator.Seconds(), "copies/s")
		b.ReportMetric(n/baseline.Seconds(), "floor/s")
		b.ReportMetric(operator.Seconds()/float64(rounds), "s/fan-out")
		b.ReportMetric(ratio, "times-floor")
		b.ReportMetric(fanOutLimit, "limit")
		b.ReportMetric(0, "ns/op")
		if size.Exceeds(ratio, fanOutLimit) {
			b.Errorf("the operator takes %.2f times as long as the baseline, want at most %v", ratio, fanOutLimit)
		}
	}
}

// timed returns the time until all Secrets of this name have the new value.
func (f *fanOut) timed(b *testing.B, name string, begin func()) time.Duration {
	b.Helper()
	began := time.Now()
	done := f.seen.await(name, value(b), len(f.namespaces))
	begin()
	select {
	case at := <-done:
		return at.Sub(began)
	case <-time.After(patience):
		b.Fatalf("not all Secrets %s are written after %v", name, patience)
		return 0
	}
}

// value returns the value of Secrets in this benchmark.
func value(b *testing.B) string { return b.Name() }

func (f *fanOut) secret(b *testing.B, namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"value": []byte(value(b))},
	}
}

// copy returns a Secret with the marks of a copy, which the operator's account may create.
func (f *fanOut) copy(b *testing.B, namespace, name string) *corev1.Secret {
	secret := f.secret(b, namespace, name)
	secret.Annotations = map[string]string{share.AnnotationRuleUID: "floor", share.AnnotationSourceUID: "floor"}
	return secret
}

func (f *fanOut) create(b *testing.B, round int) (baseline, operator func()) {
	baseline = func() {
		each(b, baselineWriters, f.namespaces, func(namespace string) error {
			return f.client.Create(b.Context(), f.copy(b, namespace, fmt.Sprint("floor-", round)))
		})
	}
	return baseline, func() {
		shared := f.secret(b, f.source, fmt.Sprint("shared-", round))
		shared.Type = sharedType
		must(b, f.Client.Create(b.Context(), shared))
	}
}

// update is create for Secrets that exist. The baseline already knows their content.
func (f *fanOut) update(b *testing.B, round int) (baseline, operator func()) {
	b.Helper()
	name := fmt.Sprint("floor-", round)
	known := f.seen.objects(name)
	baseline = func() {
		each(b, baselineWriters, f.namespaces, func(namespace string) error {
			secret := known[namespace].DeepCopy()
			secret.Data = f.secret(b, namespace, name).Data
			return f.client.Update(b.Context(), secret)
		})
	}
	return baseline, func() {
		var shared corev1.Secret
		must(b, f.Client.Get(b.Context(), client.ObjectKey{Namespace: f.source, Name: fmt.Sprint("shared-", round)}, &shared))
		shared.Data = f.secret(b, f.source, shared.Name).Data
		must(b, f.Client.Update(b.Context(), &shared))
	}
}

// newNamespaces measures the time from the create request of a namespace until a watch
// receives its copy.
func (f *fanOut) newNamespaces(b *testing.B) {
	for b.Loop() {
		var took []time.Duration
		shared := f.secret(b, f.source, "newcomers")
		shared.Type = sharedType
		f.timed(b, shared.Name, func() { must(b, f.Client.Create(b.Context(), shared)) })
		for i := range size.Scaled(newcomers) {
			name := fmt.Sprint("newcomer-", i)
			began := time.Now()
			served := f.seen.await(shared.Name, value(b), len(f.namespaces)+1)
			must(b, f.Client.Create(b.Context(), target(name)))
			select {
			case at := <-served:
				took = append(took, at.Sub(began))
			case <-time.After(patience):
				b.Fatalf("namespace %s has no copy after %v", name, patience)
			}
			f.namespaces = append(f.namespaces, name)
		}
		slices.Sort(took)
		for percent, unit := range map[int]string{50: "p50-ms", 99: "p99-ms"} {
			b.ReportMetric(float64(took[len(took)*percent/100].Microseconds())/1000, unit)
		}
		b.ReportMetric(0, "ns/op")
	}
}

// sightings contains the Secrets that a watch has received, except for sources.
type sightings struct {
	source string

	mu sync.Mutex
	// secrets contains them by name and namespace.
	secrets map[string]map[string]*corev1.Secret
	awaited *awaited
}

// awaited describes a wait for a number of Secrets with a value.
type awaited struct {
	name, value string
	left        int
	done        chan time.Time
}

// watch watches Secrets until the benchmark ends.
func (s *sightings) watch(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	secrets, err := cache.New(c.RESTConfig(), cache.Options{})
	must(b, err)
	informer, err := secrets.GetInformer(b.Context(), &corev1.Secret{}, cache.BlockUntilSynced(false))
	must(b, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.observe(o.(*corev1.Secret)) },
		UpdateFunc: func(_, o any) { s.observe(o.(*corev1.Secret)) },
	})
	must(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- secrets.Start(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if !secrets.WaitForCacheSync(ctx) {
		b.Fatal("the watch of Secrets did not sync")
	}
}

func (s *sightings) observe(secret *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret.Namespace == s.source {
		return
	}
	if s.secrets[secret.Name] == nil {
		s.secrets[secret.Name] = map[string]*corev1.Secret{}
	}
	before := s.secrets[secret.Name][secret.Namespace]
	s.secrets[secret.Name][secret.Namespace] = secret
	if a := s.awaited; a != nil && a.holds(secret) && !a.holds(before) {
		if a.left--; a.left == 0 {
			a.done <- time.Now()
		}
	}
}

// holds reports whether a Secret has the name and the value.
func (a *awaited) holds(secret *corev1.Secret) bool {
	return secret != nil && secret.Name == a.name && string(secret.Data["value"]) == a.value
}

// await returns a channel that reports when n Secrets of this name have the value.
func (s *sightings) await(name, value string, n int) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = &awaited{name: name, value: value, left: n, done: make(chan time.Time, 1)}
	for _, secret := range s.secrets[name] {
		if s.awaited.holds(secret) {
			s.awaited.left--
		}
	}
	return s.awaited.done
}

// objects returns the Secrets with this name, by namespace.
func (s *sightings) objects(name string) map[string]*corev1.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.secrets[name])
}

// BenchmarkSecretMemory measures the memory of the operator after a start in a cluster
// where a Secret has copies in 100 namespaces. It measures without other Secrets, and with
// 5,000 Secrets of 20 KB that are not shared. Each also contains its data in an annotation,
// as after kubectl apply. They may cost 10 MB.
func BenchmarkSecretMemory(b *testing.B) {
	c := cluster.Start(b)
	source := c.Namespace(b, nil)
	for i := range teams {
		must(b, c.Client.Create(b.Context(), target(team(i))))
	}
	must(b, c.Client.Create(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source, Name: "shared"}}))
	must(b, c.Client.Create(b.Context(), cluster.Manifest(b, v1alpha1.KindClusterSecretShare, "", "bench",
		"source: {namespace: "+source+", names: [shared]}\ntargets: {namespaceSelector: {matchLabels: {bench: target}}}")))
	bongsu := binary.Operator(b, b.TempDir())
	var without memory
	for _, secrets := range []int{0, size.Scaled(bystanders)} {
		createBystanders(b, c, secrets)
		b.Run(fmt.Sprintf("secrets=%d", secrets), func(b *testing.B) {
			for b.Loop() {
				now := memoryAtWork(b, c, bongsu)
				if secrets == 0 {
					without = now
				}
				reportBystanders(b, now, without)
			}
		})
	}
}

// memoryAtWork returns the memory of an operator that has started and finished all work.
func memoryAtWork(b *testing.B, c *cluster.Cluster, bongsu string) memory {
	b.Helper()
	former := readCheckpoint(b, c)
	o := startOperator(b, c, bongsu, b.TempDir())
	defer o.stop(b)
	await(b, "the operator is ready", func() bool {
		now := readCheckpoint(b, c)
		var rule v1alpha1.ClusterSecretShare
		must(b, c.Client.Get(b.Context(), client.ObjectKey{Name: "bench"}, &rule))
		return now.Epoch != former.Epoch && now.Position > 0 && rule.Status.Synced == teams
	})
	time.Sleep(settled)
	return o.memory(b)
}

func reportBystanders(b *testing.B, now, without memory) {
	b.Helper()
	megabytes := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	more := now.resident - without.resident
	b.ReportMetric(megabytes(now.resident), "MB")
	b.ReportMetric(megabytes(now.peak), "peak-MB")
	b.ReportMetric(megabytes(more), "more-MB")
	b.ReportMetric(megabytes(bystanderMemory), "limit-MB")
	b.ReportMetric(0, "ns/op")
	if more > bystanderMemory {
		b.Errorf("%.0f MB more are resident, want at most %.0f MB", megabytes(more), megabytes(bystanderMemory))
	}
}

func createBystanders(b *testing.B, c *cluster.Cluster, n int) {
	b.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("bystander-", i)
	}
	each(b, writers, names, func(name string) error {
		var i int
		_, err := fmt.Sscanf(name, "bystander-%d", &i)
		must(b, err)
		return c.Client.Create(b.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: team(i), Name: name, Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation: strings.Repeat("A", bystanderSize),
			}},
			Data: map[string][]byte{"value": make([]byte, bystanderSize)},
		})
	})
}
