package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/live"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const (
	benchUpdates = 10_000
	benchObjects = 50_000
)

// benchObject returns a Deployment as the API server sends it. Its image depends on the
// generation, its status on the position.
func benchObject(n, position, generation int) map[string]any {
	name := fmt.Sprintf("web-%05d", n)
	labels := map[string]any{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "team": "team-" + strconv.Itoa(n%100)}
	owned := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{".": map[string]any{}, "f:app.kubernetes.io/name": map[string]any{}, "f:team": map[string]any{}}},
		"f:spec": map[string]any{"f:replicas": map[string]any{}, "f:strategy": map[string]any{"f:type": map[string]any{}}, "f:template": map[string]any{"f:spec": map[string]any{
			"f:containers": map[string]any{`k:{"name":"web"}`: map[string]any{".": map[string]any{}, "f:image": map[string]any{}, "f:name": map[string]any{}, "f:resources": map[string]any{}}}}}}}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": name, "namespace": "team-" + strconv.Itoa(n%100), "uid": fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", n),
			"resourceVersion": strconv.Itoa(position), "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
			"managedFields": []any{
				map[string]any{"manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned},
				map[string]any{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned, "subresource": "status"},
			},
		},
		"spec": map[string]any{
			"replicas": 3, "revisionHistoryLimit": 10, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{
					"name": "web", "image": fmt.Sprintf("registry.example/web:1.%d", generation), "ports": []any{map[string]any{"containerPort": 8080, "protocol": "TCP"}},
					"resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
					"env":       []any{map[string]any{"name": "A", "value": "1"}, map[string]any{"name": "B", "value": "2"}},
				}},
				"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
			}},
		},
		"status": map[string]any{"observedGeneration": generation, "replicas": 3, "readyReplicas": position % 4, "conditions": []any{
			map[string]any{"type": "Available", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z", "reason": "MinimumReplicasAvailable"}}},
	}
}

// benchServer serves pages of objects, and a watch with updates. One update in a hundred changes
// the image.
func benchServer(b *testing.B, objects int) *rest.Config {
	b.Helper()
	const page = 500
	var pages [][]byte
	for first := 0; first < objects; first += page {
		items := []any{}
		for n := first; n < min(first+page, objects); n++ {
			items = append(items, benchObject(n, 1000, 1))
		}
		meta := map[string]any{"resourceVersion": "1000"}
		if first+page < objects {
			meta["continue"] = strconv.Itoa(first/page + 1)
		}
		pages = append(pages, marshal(b, map[string]any{"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": meta, "items": items}))
	}
	var stream bytes.Buffer
	for n := range benchUpdates {
		generation := 1
		if n%100 == 0 {
			generation = 2 + n
		}
		stream.Write(marshal(b, map[string]any{"type": "MODIFIED", "object": benchObject(n%100+n/100%50*100, 1001+n, generation)}))
		stream.WriteByte('\n')
	}
	discovery := newAPI()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasSuffix(r.URL.Path, "/deployments"):
			discovery.ServeHTTP(w, r)
		case query.Get("watch") != "":
			_, _ = w.Write(stream.Bytes())
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			at, _ := strconv.Atoi(query.Get("continue"))
			_, _ = w.Write(pages[at])
		}
	}))
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL, QPS: -1}
}

func marshal(b *testing.B, object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

var benchResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func rate(b *testing.B, n int) {
	b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "objects/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBareWatch is the baseline for BenchmarkWatch: the dynamic client of client-go.
func BenchmarkBareWatch(b *testing.B) {
	client, err := dynamic.NewForConfig(benchServer(b, 1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w, err := client.Resource(benchResource).Watch(b.Context(), metav1.ListOptions{ResourceVersion: "1000"})
		if err != nil {
			b.Fatal(err)
		}
		for range benchUpdates {
			<-w.ResultChan()
		}
		w.Stop()
	}
	rate(b, benchUpdates)
}

// BenchmarkWatch reads the same updates as changes of images. The baselines exist.
func BenchmarkWatch(b *testing.B) {
	cfg := benchServer(b, 5000)
	base := newStore()
	until(b, cfg, base, 1000)
	row := base.streams["deployments.apps"]
	for b.Loop() {
		s := newStore()
		s.streams["deployments.apps"], s.baselines = row, base.baselines
		until(b, cfg, s, 1000+benchUpdates)
	}
	rate(b, benchUpdates)
}

// BenchmarkBareList is the baseline for BenchmarkFirstList.
func BenchmarkBareList(b *testing.B) {
	client, err := dynamic.NewForConfig(benchServer(b, benchObjects))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		opts := metav1.ListOptions{Limit: 500}
		for first := true; first || opts.Continue != ""; first = false {
			list, err := client.Resource(benchResource).List(b.Context(), opts)
			if err != nil {
				b.Fatal(err)
			}
			opts.Continue = list.GetContinue()
		}
	}
	rate(b, benchObjects)
}

// BenchmarkFirstList makes the baseline of the same objects.
func BenchmarkFirstList(b *testing.B) {
	cfg := benchServer(b, benchObjects)
	for b.Loop() {
		until(b, cfg, newStore(), 1000)
	}
	rate(b, benchObjects)
}

// until runs a source until a position is committed.
func until(b *testing.B, cfg *rest.Config, s *store, position uint64) {
	b.Helper()
	source, err := New(cfg, s, clock.RealClock{}, logr.Discard())
	if err != nil {
		b.Fatal(err)
	}
	source.SetNeeds(need(b, deployments, "spec.template.spec.containers[*].image"))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	err = source.Run(ctx, func(ctx context.Context, batch Batch) error {
		if batch.Stream.Position >= position {
			cancel()
		}
		batch.Changes = nil // the store would keep them
		return s.commit(ctx, batch)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkKnown measures the memory for each object.
func BenchmarkKnown(b *testing.B) {
	const objects = 100_000
	uids := make([]string, objects)
	for i := range uids {
		uids[i] = fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", i)
	}
	for b.Loop() {
		before := heap()
		k := &live.Set[[16]byte]{}
		for _, uid := range uids {
			k.Set(uid, [16]byte{})
		}
		b.ReportMetric(float64(heap()-before)/objects, "B/object")
		runtime.KeepAlive(k)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkShapes measures what the fields of ClusterAlarms cost in namespaces that have Alarms of
// their own. It compares 100 fields with one.
func BenchmarkShapes(b *testing.B) {
	const namespaces, limit = 2000, 1.5
	base := 0.0
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("fields=%d", n), func(b *testing.B) {
			needs := Needs{}
			for i := range n {
				needs.Add(deployments, shape(b, fmt.Sprintf("spec.template.spec.field%d", i)), everywhere)
			}
			for i := range namespaces {
				needs.Add(deployments, shape(b, fmt.Sprintf("metadata.annotations.team%d", i)), kube.Key{Kind: alarm.KindAlarm, Namespace: fmt.Sprintf("team-%d", i)})
			}
			size := 0.0
			for b.Loop() {
				before := heap()
				chosen, _ := choose(needs, nil)
				size = float64(heap()-before) / namespaces
				runtime.KeepAlive(chosen)
			}
			b.ReportMetric(size, "B/namespace")
			if base == 0 {
				base = size
			} else if ratio := size / base; ratio > limit {
				b.Errorf("%.1f times the memory for a namespace, want at most %.1f", ratio, limit)
			}
		})
	}
}
