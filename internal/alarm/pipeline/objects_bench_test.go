package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	manyDeployments, manyPods = 20_000, 50_000
	// manyAlarms are ten in each namespace.
	manyAlarms, benchNamespaces = 1000, 100
	// benchUpdates is the number of updates of a watch. One in a hundred changes the image, which
	// one alarm of its namespace names.
	benchUpdates = 20_000
	// listedAt is the resourceVersion of lists.
	listedAt = 100_000
	// objectsLimit limits the memory for the objects and the alarms, in bytes.
	objectsLimit = 150 << 20
)

// benchAlarmCount is the environment of the process that BenchmarkObjectsMemory measures: the
// number of its alarms.
const benchAlarmCount = "BONGSU_BENCH_ALARMS"

// BenchmarkChanges measures the rate of updates from the wire to the disk, with 1,000 alarms. It
// compares it with only decoding the same watch with the dynamic client of client-go.
func BenchmarkChanges(b *testing.B) {
	server := newObjectServer(b, 5000, 0)
	var decode float64
	b.Run("alarms=decode", func(b *testing.B) {
		var watched time.Duration
		for b.Loop() {
			watched += server.decodeWatch(b)
		}
		decode = reportObjects(b, benchUpdates, watched)
	})
	b.Run(fmt.Sprintf("alarms=%d", manyAlarms), func(b *testing.B) {
		alarms, matched := benchChanges(b, manyAlarms, false), int64(0)
		var watched time.Duration
		for b.Loop() {
			r := startObjects(b, server.config(), b.TempDir(), alarms)
			r.await(b, deploymentStream, listedAt)
			begun := time.Now()
			server.begin <- struct{}{}
			r.await(b, deploymentStream, listedAt+benchUpdates)
			watched += time.Since(begun)
			matched += r.store.Size().Entries
			r.stop(b)
		}
		if want := int64(b.N * benchUpdates / 100); matched != want {
			b.Errorf("%d messages, want %d", matched, want)
		}
		rate := reportObjects(b, benchUpdates, watched)
		b.ReportMetric(rate/decode, "x-decoding")
		checkRatio(b, "1,000 alarms compared to decoding", rate, decode, 0.5)
	})
}

// BenchmarkFirstSync measures the first list of 50,000 pods with 1,000 alarms, until all baselines
// are on disk. It compares it with the same list with the dynamic client of client-go.
func BenchmarkFirstSync(b *testing.B) {
	server := newObjectServer(b, 0, size.Scaled(manyPods))
	var bare float64
	b.Run("alarms=list", func(b *testing.B) {
		var listed time.Duration
		for b.Loop() {
			listed += server.listPods(b)
		}
		bare = reportObjects(b, size.Scaled(manyPods), listed)
	})
	b.Run(fmt.Sprintf("alarms=%d", manyAlarms), func(b *testing.B) {
		alarms := benchChanges(b, manyAlarms, false)
		var listed time.Duration
		for b.Loop() {
			begun := time.Now()
			r := startObjects(b, server.config(), b.TempDir(), alarms)
			r.await(b, podStream, listedAt)
			listed += time.Since(begun)
			r.stop(b)
		}
		rate := reportObjects(b, size.Scaled(manyPods), listed)
		b.ReportMetric(bare/rate, "x-list")
		checkRatio(b, "the first list with 1,000 alarms compared to a bare list", rate, bare, 0.5)
	})
}

// BenchmarkObjectsMemory measures the memory for 1,000 alarms on changes and states, in a process
// of its own. There are 20,000 Deployments, 50,000 pods and 20,000 updates. The first start lists
// the objects, and the second one reads the baselines from the outbox. A process without alarms
// shows what it needs itself.
func BenchmarkObjectsMemory(b *testing.B) {
	if address := os.Getenv(benchServer); address != "" {
		readObjects(b, address, os.Getenv(benchDir))
		return
	}
	server := newObjectServer(b, size.Scaled(manyDeployments), size.Scaled(manyPods))
	close(server.begin)
	measure := func(alarms, live int, dir string) measurement {
		return measureProcess(b, "BenchmarkObjectsMemory", live,
			benchServer+"="+server.config().Host, benchDir+"="+dir, benchAlarmCount+"="+strconv.Itoa(alarms))
	}
	baseline, dir := measure(0, 0, b.TempDir()).peak, b.TempDir()
	for _, phase := range []string{"start=first", "start=again"} {
		b.Run(phase, func(b *testing.B) {
			for b.Loop() {
				m := measure(manyAlarms, size.Scaled(manyDeployments+manyPods), dir)
				b.ReportMetric(float64(baseline)/(1<<20), "baseline-MB")
				b.ReportMetric(float64(m.resident)/(1<<20), "MB")
				b.ReportMetric(float64(m.peak)/(1<<20), "peak-MB")
				if m.peak-baseline > objectsLimit {
					b.Errorf("the alarms need %d MB, the limit is %d MB", (m.peak-baseline)>>20, objectsLimit>>20)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// readObjects reads all objects and updates that the alarms need, and prints the memory of this
// process. It collects garbage like the operator.
func readObjects(b *testing.B, address, dir string) {
	b.Helper()
	debug.SetGCPercent(50)
	alarms, err := strconv.Atoi(os.Getenv(benchAlarmCount))
	must(b, err)
	begun := time.Now()
	r := startObjects(b, &rest.Config{Host: address}, dir, benchChanges(b, alarms, true))
	if alarms > 0 {
		r.await(b, podStream, listedAt)
		r.await(b, deploymentStream, listedAt+benchUpdates)
	}
	printMemory(b, func() (live int) {
		for _, stream := range []string{podStream, deploymentStream} {
			for _, err := range r.store.Streams.Baselines(b.Context(), stream) {
				must(b, err)
				live++
			}
		}
		return live
	}, time.Since(begun))
	r.stop(b)
}

func reportObjects(b *testing.B, n int, took time.Duration) float64 {
	rate := float64(b.N) * float64(n) / took.Seconds()
	b.ReportMetric(rate, "objects/s")
	b.ReportMetric(0, "ns/op")
	return rate
}

const deploymentStream, podStream = "deployments.apps", "pods"

// objectsRun is a source of objects with a pipeline and an outbox.
type objectsRun struct {
	store  *outbox.Store
	cancel context.CancelFunc
	done   chan error
}

func startObjects(b *testing.B, cfg *rest.Config, dir string, alarms *Alarms) *objectsRun {
	b.Helper()
	store, err := outbox.Open(b.Context(), dir)
	must(b, err)
	changes, err := objects.New(cfg, store.Streams, clock.RealClock{}, logr.Discard())
	must(b, err)
	p := New(Config{
		Changes: changes, Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
		Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(b.Context())
	r := &objectsRun{store: store, cancel: cancel, done: make(chan error, 3)}
	go func() { r.done <- changes.Run(ctx, p.handleChanges) }()
	go func() { r.done <- p.followNeeds(ctx) }()
	go func() { r.done <- p.followStates(ctx) }()
	return r
}

// await waits until a stream has been read up to a position.
func (r *objectsRun) await(b *testing.B, stream string, position uint64) {
	b.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		streams, err := r.store.Streams.All(b.Context())
		must(b, err)
		if s := streams[stream]; s.Complete && s.Position >= position {
			return
		}
		if time.Since(begun) > 5*time.Minute {
			b.Fatalf("%s is not read after five minutes: %+v", stream, streams[stream])
		}
	}
}

func (r *objectsRun) stop(b *testing.B) {
	b.Helper()
	r.cancel()
	for range cap(r.done) {
		must(b, <-r.done)
	}
	must(b, r.store.Close())
}

// benchChanges returns alarms, ten in each namespace. They are typical. If states is true, two of
// the ten are on states, and these read the status of objects.
func benchChanges(b *testing.B, n int, states bool) *Alarms {
	b.Helper()
	deployments, pods := v1alpha1.ChangeResource{APIGroup: "apps", Resource: "deployments"}, v1alpha1.ChangeResource{Resource: "pods"}
	change := func(c v1alpha1.ChangeMatch) v1alpha1.AlarmSpec {
		return v1alpha1.AlarmSpec{Changes: []v1alpha1.ChangeMatch{c}}
	}
	specs := []v1alpha1.AlarmSpec{
		change(v1alpha1.ChangeMatch{Resource: deployments, Fields: []string{"spec.template.spec.containers[*].image"}}),
		change(v1alpha1.ChangeMatch{Resource: deployments, Fields: []string{"spec.replicas"}, Expression: `manager != "kube-controller-manager"`}),
		change(v1alpha1.ChangeMatch{Resource: deployments, Expression: `object.spec.replicas > 10 && oldObject.spec.replicas <= 10`}),
		change(v1alpha1.ChangeMatch{Resource: deployments, Fields: []string{"metadata.labels"}}),
		change(v1alpha1.ChangeMatch{Resource: deployments, Names: []string{"db-*"}}),
		change(v1alpha1.ChangeMatch{Resource: pods, Fields: []string{"spec.containers[*].image"}}),
		change(v1alpha1.ChangeMatch{Resource: pods, Fields: []string{"metadata.labels"}, Expression: `object.metadata.labels["tier"] == "front"`}),
		change(v1alpha1.ChangeMatch{Resource: pods, Names: []string{"db-*"}, Fields: []string{"spec.nodeName"}}),
		change(v1alpha1.ChangeMatch{Resource: pods, Fields: []string{"metadata.annotations"}}),
		change(v1alpha1.ChangeMatch{Resource: pods, Operations: []v1alpha1.ChangeOperation{v1alpha1.ChangeDelete}, Names: []string{"db-*"}}),
	}
	if states {
		specs[4] = v1alpha1.AlarmSpec{States: []v1alpha1.StateMatch{{Resource: deployments, Expression: `condition("Available").status == "False"`, ForSeconds: 300}}}
		specs[9] = v1alpha1.AlarmSpec{States: []v1alpha1.StateMatch{{Resource: pods, Expression: `object.status.phase == "Pending"`, ForSeconds: 600}}}
	}
	compiler, err := match.NewCompiler()
	must(b, err)
	alarms := NewAlarms()
	for i := range n {
		id := kube.Key{Kind: alarm.KindAlarm, Namespace: benchNamespace(i % benchNamespaces), Name: fmt.Sprint("alarm-", i)}
		compiled, err := compiler.Compile(match.Definition{ID: id, UID: id.Name, Spec: specs[i/benchNamespaces%len(specs)], Receivers: []string{benchReceiver(i % benchNamespaces)}})
		must(b, err)
		alarms.Set(id.Name, "1", compiled)
	}
	return alarms
}

// objectServer serves lists of Deployments and pods in pages, and a watch of Deployments with
// updates.
type objectServer struct {
	host    string
	pages   map[string][][]byte
	updates []byte
	// begin lets one watch send the updates.
	begin chan struct{}
}

func newObjectServer(b *testing.B, deployments, pods int) *objectServer {
	b.Helper()
	s := &objectServer{begin: make(chan struct{}), pages: map[string][][]byte{
		"deployments": pagesOf(b, "apps/v1", "DeploymentList", deployments, func(n int) any { return benchDeployment(n, listedAt, 1) }),
		"pods":        pagesOf(b, "v1", "PodList", pods, func(n int) any { return benchPod(n) }),
	}}
	if deployments > 0 {
		s.updates = updatesOf(b, deployments)
	}
	server := httptest.NewServer(s)
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.host = server.URL
	return s
}

func (s *objectServer) config() *rest.Config { return &rest.Config{Host: s.host, QPS: -1} }

// ServeHTTP implements http.Handler.
func (s *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, name := r.URL.Query(), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case s.pages[name] == nil:
		serveDiscovery(w, r)
	case query.Get("watch") == "":
		at, _ := strconv.Atoi(query.Get("continue"))
		_, _ = w.Write(s.pages[name][at])
	default:
		w.(http.Flusher).Flush()
		if name == "deployments" && query.Get("resourceVersion") == strconv.Itoa(listedAt) {
			select {
			case <-s.begin:
				_, _ = w.Write(s.updates)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
			}
		}
		<-r.Context().Done()
	}
}

func serveDiscovery(w http.ResponseWriter, r *http.Request) {
	version := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
	served := func(name, kind string) []metav1.APIResource {
		return []metav1.APIResource{{Name: name, Kind: kind, Namespaced: true, Verbs: []string{"list", "watch"}}}
	}
	var answer any
	switch r.URL.Path {
	case "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}}
	case "/api/v1":
		answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: served("pods", "Pod")}
	case "/apis/apps/v1":
		answer = metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: served("deployments", "Deployment")}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// decodeWatch decodes the updates, and returns how long it took.
func (s *objectServer) decodeWatch(b *testing.B) time.Duration {
	b.Helper()
	client, err := dynamic.NewForConfig(s.config())
	must(b, err)
	w, err := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).
		Watch(b.Context(), metav1.ListOptions{ResourceVersion: strconv.Itoa(listedAt)})
	must(b, err)
	defer w.Stop()
	begun := time.Now()
	s.begin <- struct{}{}
	for range benchUpdates {
		<-w.ResultChan()
	}
	return time.Since(begun)
}

// listPods lists the pods in pages, and returns how long it took.
func (s *objectServer) listPods(b *testing.B) time.Duration {
	b.Helper()
	client, err := dynamic.NewForConfig(s.config())
	must(b, err)
	begun, opts := time.Now(), metav1.ListOptions{Limit: 500}
	for first := true; first || opts.Continue != ""; first = false {
		list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).List(b.Context(), opts)
		must(b, err)
		opts.Continue = list.GetContinue()
	}
	return time.Since(begun)
}

// pagesOf encodes a list in pages of 500.
func pagesOf(b *testing.B, version, kind string, n int, object func(n int) any) (pages [][]byte) {
	b.Helper()
	for first := 0; first == 0 || first < n; first += 500 {
		meta, items := metav1.ListMeta{ResourceVersion: strconv.Itoa(listedAt)}, []any{}
		for i := first; i < min(first+500, n); i++ {
			items = append(items, object(i))
		}
		if first+500 < n {
			meta.Continue = strconv.Itoa(len(pages) + 1)
		}
		page, err := json.Marshal(map[string]any{"apiVersion": version, "kind": kind, "metadata": meta, "items": items})
		must(b, err)
		pages = append(pages, page)
	}
	return pages
}

// updatesOf encodes a watch. Most updates change the status only, and the last one the image.
func updatesOf(b *testing.B, deployments int) []byte {
	b.Helper()
	var stream bytes.Buffer
	encoder := json.NewEncoder(&stream)
	images := map[int]int{}
	for n := 1; n <= benchUpdates; n++ {
		which := n * 7919 % deployments // 7919 is a prime, so every object has its turn
		if n%100 == 0 {
			images[which] = n
		}
		must(b, encoder.Encode(map[string]any{"type": "MODIFIED", "object": benchDeployment(which, listedAt+n, 1+images[which])}))
	}
	return stream.Bytes()
}

// benchMeta returns the metadata of an object with two managers.
func benchMeta(name string, n, position int, fields string) metav1.ObjectMeta {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	managed := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource,
		}
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: benchNamespace(n % benchNamespaces), UID: types.UID(fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", n)),
		ResourceVersion: strconv.Itoa(position), CreationTimestamp: at,
		Labels:        map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "team": benchNamespace(n % benchNamespaces)},
		Annotations:   map[string]string{"kubernetes.io/config.source": "api", "prometheus.io/scrape": "true"},
		ManagedFields: []metav1.ManagedFieldsEntry{managed("kubectl", ""), managed("kube-controller-manager", "status")},
	}
}

const (
	deploymentFields = `{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/scrape":{}},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:team":{}}},"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:selector":{},"f:strategy":{"f:type":{}},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{},"f:image":{},"f:name":{},"f:resources":{}}}}}}}`
	podFields        = `{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:team":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{},"f:resources":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:volumes":{}},"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:containerStatuses":{},"f:podIP":{}}}`
)

// benchContainer returns a container with a typical size.
func benchContainer(image string) corev1.Container {
	return corev1.Container{
		Name: "web", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Ports: []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "DATABASE", Value: "postgres://db.shop.svc:5432/shop"}},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
		},
		VolumeMounts:             []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// benchDeployment returns a Deployment. Its image depends on the generation, its status on the
// position.
func benchDeployment(n, position, generation int) *appsv1.Deployment {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	d.ObjectMeta = benchMeta(fmt.Sprintf("web-%05d", n), n, position, deploymentFields)
	d.Generation = int64(generation)
	d.Spec.Replicas, d.Spec.RevisionHistoryLimit = new(int32(3)), new(int32(10))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Labels}
	d.Spec.Template.Labels = d.Labels
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{benchContainer(fmt.Sprintf("registry.example/team/web:1.%d", generation))},
		DNSPolicy:  corev1.DNSClusterFirst, RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: "default-scheduler",
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: int64(generation), Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: int32(position % 4),
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: d.CreationTimestamp, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability."},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastTransitionTime: d.CreationTimestamp, Reason: "NewReplicaSetAvailable", Message: "ReplicaSet has successfully progressed."},
		},
	}
	return d
}

// benchPod returns a running pod.
func benchPod(n int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: benchMeta(fmt.Sprintf("web-%05d-7d4b9c6f5d-x2x8q", n), n, listedAt, podFields)}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("web-%05d-7d4b9c6f5d", n), UID: p.UID, Controller: new(true)}}
	p.Spec = corev1.PodSpec{
		NodeName: "node-" + strconv.Itoa(n%500), Containers: []corev1.Container{benchContainer("registry.example/team/web:1.1")},
		Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
		}}}}},
		DNSPolicy: corev1.DNSClusterFirst, RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: "default-scheduler", ServiceAccountName: "default",
		Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}},
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.0.2.7", PodIP: "10.1.2.3", QOSClass: corev1.PodQOSBurstable, StartTime: &p.CreationTimestamp,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Image: "registry.example/team/web:1.1", Ready: true, Started: new(true), ContainerID: "containerd://0123456789abcdef0123456789abcdef0123456789abcdef",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp})
	}
	return p
}
