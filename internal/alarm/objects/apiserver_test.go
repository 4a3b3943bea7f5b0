package objects

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

const deploymentManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

const crdManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const widgetManifest = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: gear, namespace: default}
spec: {value: 1}
`

// realServer is a real API server with a client.
type realServer struct {
	*gomega.WithT
	*localcluster.Cluster
	client dynamic.Interface
}

func (s *realServer) create(manifest string, r schema.GroupVersionResource, namespace string) {
	object := &unstructured.Unstructured{}
	s.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(gomega.Succeed())
	// A resource of a new CustomResourceDefinition is served after a moment.
	s.Eventually(func() error {
		_, err := s.client.Resource(r).Namespace(namespace).Create(context.Background(), object, metav1.CreateOptions{})
		return err
	}, "60s").Should(gomega.Succeed())
}

func (s *realServer) patch(r schema.GroupVersionResource, name, patch string, subresources ...string) {
	_, err := s.client.Resource(r).Namespace("default").Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

// begin runs a source until the returned function is called.
func (s *realServer) begin(t *testing.T, store *store, needs Needs) (source *Source, stop func()) {
	source, err := New(s.RESTConfig(), store, clock.RealClock{}, testr.New(t))
	s.Expect(err).NotTo(gomega.HaveOccurred())
	source.pageSize, source.missing = 2, 1e9
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = source.Run(ctx, store.commit) })
	source.SetNeeds(needs)
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return source, stop
}

// writes checks who a change is by. managedFields names who set a field, and not who removed one.
func (s *realServer) writes(t *testing.T) {
	deployment := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMap := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	needs := need(t, deployments, "spec.replicas")
	configMaps, writers := alarm.Resource{Resource: "configmaps"}, kube.Key{Kind: alarm.KindAlarm, Namespace: "writers", Name: "a"}
	needs.Add(configMaps, shape(t, "data"), writers)
	s.create("{apiVersion: v1, kind: Namespace, metadata: {name: writers}}", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "")
	store := newStore()
	source, stop := s.begin(t, store, needs)
	defer stop()
	s.Eventually(func() bool { return source.Status(deployments, everywhere, fields.Shape{}).Synced }, "60s").Should(gomega.BeTrue())
	s.Eventually(func() bool { return source.Status(configMaps, writers, fields.Shape{}).Synced }, "60s").Should(gomega.BeTrue())
	count := 0
	patch := func(r schema.GroupVersionResource, namespace, name, patch, as, want string, subresources ...string) {
		t.Helper()
		_, err := s.client.Resource(r).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: as}, subresources...)
		s.Expect(err).NotTo(gomega.HaveOccurred())
		count++
		s.Eventually(func() int { return len(store.texts()) }, "60s").Should(gomega.Equal(count))
		store.mu.Lock()
		defer store.mu.Unlock()
		if got := store.changes[count-1].Change.Manager; got != want {
			t.Errorf("%s as %s: the change is by %q, want %q", patch, as, got, want)
		}
	}
	s.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: writers}, data: {a: x, b: x}}", configMap, "writers")
	count++
	patch(configMap, "writers", "c", `{"data":{"a":"y"}}`, "setter", "setter")
	patch(configMap, "writers", "c", `{"data":{"b":"y"}}`, "other", "other")
	patch(configMap, "writers", "c", `{"data":{"b":null}}`, "remover", "")
	patch(configMap, "writers", "c", `{"data":{"a":"z","c":"z"}}`, "other", "other")
	patch(deployment, "default", "web", `{"spec":{"replicas":5}}`, "scaler", "scaler", "scale")
	patch(deployment, "default", "web", `{"spec":{"replicas":6}}`, "setter", "setter")
	patch(deployment, "default", "web", `{"spec":{"replicas":7}}`, "scaler", "scaler", "scale")
	patch(deployment, "default", "web", `{"spec":{"replicas":0}}`, "scaler", "", "scale") // a Scale leaves 0 out
}

// reads checks what the API server answers about objects and resources that do not exist.
func (s *realServer) reads(t *testing.T, widgets alarm.Resource) {
	source, stop := s.begin(t, newStore(), Needs{})
	defer stop()
	needs := need(t, widgets)
	needs.Add(alarm.Resource{Resource: "pods"}, fields.Shape{}, everywhere)
	source.SetReads(needs)
	s.Eventually(func() Status { return source.ReadStatus(widgets) }, "60s").Should(gomega.Equal(Status{Synced: true, Served: alarm.Served{Version: "v1", Kind: "Widget", Namespaced: true}}))
	widgets.Version = "v1"
	found, err := source.Get(t.Context(), widgets, "default", "gear")
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.Expect(found.Name).To(gomega.Equal("gear"))
	_, err = source.Get(t.Context(), widgets, "default", "other")
	s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "no such object: %v", err)
	widgets.Version = "v9"
	_, err = source.Get(t.Context(), widgets, "default", "gear")
	s.Expect(err).To(gomega.MatchError(errNotServed), "no such version")
}

func TestRealAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the control plane")
	}
	t.Attr("rerun", "allowed")
	c, err := localcluster.Start(t.Context(), localcluster.Config{Dir: t.TempDir(), UnsafeNoFsync: true, GCPercent: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &realServer{gomega.NewWithT(t), c, client}
	deployment := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widget := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widgets := alarm.Resource{Group: "example.com", Resource: "widgets"}
	needs := need(t, deployments, "spec.template.spec.containers[*].image")
	needs.Add(widgets, shape(t, "spec.value"), everywhere)
	store := newStore()
	s.create(deploymentManifest, deployment, "default")

	source, stop := s.begin(t, store, needs)
	s.Eventually(func() bool { return source.Status(deployments, everywhere, fields.Shape{}).Synced }, "60s").Should(gomega.BeTrue())
	s.Eventually(func() string { return source.Status(widgets, everywhere, fields.Shape{}).Reason }, "60s").Should(gomega.Equal(KindNotFound))
	s.create(crdManifest, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "")
	s.Eventually(func() Status { return source.Status(widgets, everywhere, fields.Shape{}) }, "60s").Should(gomega.Equal(Status{Synced: true, Served: alarm.Served{Version: "v1", Kind: "Widget", Namespaced: true}}))

	reported := func() (all []string) {
		store.mu.Lock()
		defer store.mu.Unlock()
		for i := range store.changes {
			o := &store.changes[i]
			all = append(all, o.Event.Action+" "+o.Event.Regarding.Kind+" "+o.Event.Name)
		}
		slices.Sort(all) // the two resources are independent
		return all
	}
	s.create(widgetManifest, widget, "default")
	s.patch(deployment, "web", `{"status":{"replicas":1}}`, "status")
	s.patch(deployment, "web", `{"spec":{"replicas":3}}`)
	s.patch(deployment, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	s.Eventually(reported, "60s").Should(gomega.Equal([]string{"Create Widget gear", "Update Deployment web"}))

	stop()
	s.reads(t, widgets)
	s.patch(widget, "gear", `{"spec":{"value":2}}`)
	s.patch(widget, "gear", `{"spec":{"value":3}}`)
	s.patch(deployment, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:3"}]}}}}`)
	s.Expect(s.Compact(t.Context())).To(gomega.Succeed())
	s.Expect(s.Restart(t.Context(), localcluster.APIServer)).To(gomega.Succeed()) // its watch cache forgets the history
	_, stop = s.begin(t, store, needs)
	want := []string{"Create Widget gear", "Update Deployment web", "Update Deployment web", "Update Widget gear"}
	s.Eventually(reported, "60s").Should(gomega.Equal(want))
	store.mu.Lock()
	last := store.changes[slices.IndexFunc(store.changes, func(o alarm.Occurrence) bool { return o.Event.Action == "Update" && o.Event.Regarding.Kind == "Widget" })]
	store.mu.Unlock()
	if value(last.Change.Old) != int64(1) || value(last.Change.Object) != int64(3) {
		t.Errorf("%s, want one change from 1 to 3", text(&last))
	}
	s.Expect(client.Resource(widget).Namespace("default").Delete(t.Context(), "gear", metav1.DeleteOptions{})).To(gomega.Succeed())
	s.Eventually(reported, "60s").Should(gomega.Equal(append([]string{want[0], "Delete Widget gear"}, want[1:]...)))
	stop()
	s.writes(t)
}
