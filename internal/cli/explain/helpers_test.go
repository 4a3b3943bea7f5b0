package explain_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// place is a namespace of a test's own. There are no nodes and controllers: the
// tests write what those would.
type place struct {
	*cluster.Cluster
	t  *testing.T
	ns string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	c := cluster.Shared(t)
	p := &place{Cluster: c, t: t, ns: c.Namespace(t, nil)}
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return p
}

func (p *place) create(o client.Object) {
	p.t.Helper()
	o.SetNamespace(p.ns)
	if err := p.Client.Create(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) status(o client.Object, merge string) {
	p.t.Helper()
	if err := p.Client.Status().Patch(p.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(merge))); err != nil {
		p.t.Fatal(err)
	}
}

// user may do what is said in this namespace.
func (p *place) user(rules ...rbacv1.PolicyRule) *rest.Config { return p.User(p.t, p.ns, rules...) }

// everything is what the role view allows of what is read.
func everything() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		cluster.Rule("", "pods", "get", "list"), cluster.Rule("", "events", "list"),
		cluster.Rule("", "persistentvolumeclaims", "get"), cluster.Rule("", "resourcequotas", "list"),
		cluster.Rule("apps", "deployments", "get"), cluster.Rule("apps", "replicasets", "list"),
		cluster.Rule("apps", "statefulsets", "get"), cluster.Rule("batch", "jobs", "get"), cluster.Rule("bongsu.io", "jupyters", "get"),
		cluster.Rule("bongsu.io", "appservices", "get"),
	}
}

func (p *place) tries(config *rest.Config, resource, name string) (*explain.Explanation, error) {
	p.t.Helper()
	e, err := explain.New(config)
	if err != nil {
		p.t.Fatal(err)
	}
	return e.Explain(p.t.Context(), schema.ParseGroupResource(resource), p.ns, name)
}

func (p *place) explain(config *rest.Config, resource, name string) *explain.Explanation {
	p.t.Helper()
	x, err := p.tries(config, resource, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return x
}

// text is what a person sees.
func text(t *testing.T, x *explain.Explanation) string {
	t.Helper()
	var out strings.Builder
	if err := explain.WriteText(&out, x, time.Now()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// newPod has a container app, and belongs to an owner if one is given.
func newPod(name string, owner client.Object, kind string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
	}
	if owner != nil {
		p.OwnerReferences = ownedBy(owner, kind)
	}
	return p
}

func ownedBy(owner client.Object, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
}

// bind gives the pod a node, as the scheduler does.
func (p *place) bind(pod *corev1.Pod) {
	p.t.Helper()
	err := p.Client.SubResource("binding").Create(p.t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// Statuses as a kubelet writes them.
const (
	outOfMemory = `{"status": {"phase": "Running",
		"conditions": [
			{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T09:00:00Z"},
			{"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]", "lastTransitionTime": "2026-03-01T09:00:01Z"},
			{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]", "lastTransitionTime": "2026-03-01T09:00:01Z"}],
		"containerStatuses": [{"name": "app", "image": "example.com/app:1", "imageID": "x", "ready": false, "started": false, "restartCount": 3,
			"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=app pod=web_x(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)"}},
			"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-03-01T09:05:00Z", "finishedAt": "2026-03-01T09:05:09Z", "containerID": "containerd://x"}}}]}}`
	unschedulable = `{"status": {"phase": "Pending", "conditions": [
			{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-03-01T09:00:01Z",
			 "message": "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."}]}}`
	running = `{"status": {"phase": "Running",
		"conditions": [
			{"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-03-01T09:06:00Z"},
			{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T09:06:00Z"}],
		"containerStatuses": [{"name": "app", "image": "example.com/app:1", "imageID": "x", "ready": true, "started": true, "restartCount": 1,
			"state": {"running": {"startedAt": "2026-03-01T09:05:30Z"}},
			"lastState": {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-03-01T09:05:00Z", "finishedAt": "2026-03-01T09:05:09Z", "containerID": "containerd://x"}}}]}}`
)

// event creates an Event as a component does; the object need not exist any more.
func (p *place) event(kind, name, fieldPath, reason, note string) {
	p.t.Helper()
	p.eventAt(time.Now(), kind, name, fieldPath, reason, note)
}

func (p *place) eventAt(at time.Time, kind, name, fieldPath, reason, note string) {
	p.t.Helper()
	now := metav1.NewTime(at)
	p.create(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: p.ns, Name: name, FieldPath: fieldPath},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: note, Count: 2, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet"},
	})
}

// withLogs puts a server before the API server that answers for the log subresource
// alone: no kubelet is there to. It checks nothing of the caller's rights, which the
// test of a caller without them asks the API server itself about.
func withLogs(t *testing.T, config *rest.Config, log string) (*rest.Config, func() []string) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	api := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			api.ServeHTTP(w, r)
			return
		}
		asked <- r.URL.Path + "?" + r.URL.Query().Encode()
		_, _ = fmt.Fprint(w, log)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, func() (all []string) {
		for len(asked) > 0 {
			all = append(all, <-asked)
		}
		return all
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
