package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// listPermissions allow to list every type of an overview in a namespace, and to get the
// namespace.
func listPermissions() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{cluster.Rule("", "namespaces", "get")}
	types := slices.DeleteFunc(explain.Types(), func(name string) bool { return name == "nodes" || name == "namespaces" })
	for _, name := range append(types, "events", "resourcequotas", "endpointslices.discovery.k8s.io") {
		resource, group, _ := strings.Cut(name, ".")
		rules = append(rules, cluster.Rule(group, resource, "get", "list"))
	}
	return rules
}

func (p *testNamespace) overview(config *rest.Config) *explain.Overview {
	p.t.Helper()
	e, err := explain.New(config, clock.RealClock{})
	if err != nil {
		p.t.Fatal(err)
	}
	o, err := e.Overview(p.t.Context(), p.ns)
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// problem is the part of a Problem that these tests compare.
type problem struct {
	State   explain.State
	Reason  string
	Objects []string
}

func problemsOf(o *explain.Overview) []problem {
	var all []problem
	for _, p := range o.Problems {
		short := problem{State: p.State}
		if p.Cause != nil {
			short.Reason = p.Cause.Reason
		}
		for _, object := range p.Objects {
			short.Objects = append(short.Objects, object.Kind+"/"+object.Name)
		}
		all = append(all, short)
	}
	return all
}

func checkProblems(t *testing.T, o *explain.Overview, want ...problem) {
	t.Helper()
	if diff := cmp.Diff(want, problemsOf(o), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func overviewText(t *testing.T, o *explain.Overview) string {
	t.Helper()
	var out strings.Builder
	if err := explain.WriteOverview(&out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// runningPod creates a pod on a node.
func (p *testNamespace) runningPod(name, node, status string) {
	p.t.Helper()
	pod := newPod(name, nil, "")
	p.create(pod)
	err := p.Client.SubResource("binding").Create(p.t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.status(pod, status)
}

// lostNode creates a node that does not respond, as the node controller leaves it.
func (p *testNamespace) lostNode(name string) {
	p.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := p.Client.Create(p.t.Context(), n); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.Client.Delete(p.t.Context(), n) })
	p.status(n, `{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}]}}`)
}

// onLostNode is the status of a pod whose node does not respond.
const onLostNode = `{"status": {"phase": "Running",
	"conditions": [
		{"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-03-01T09:00:01Z"},
		{"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T09:10:00Z"}],
	"containerStatuses": [{"name": "app", "image": "example.com/app:1", "imageID": "x", "ready": true, "started": true, "restartCount": 0,
		"state": {"running": {"startedAt": "2026-03-01T09:00:00Z"}}}]}}`

func TestTheOverviewShowsALostNodeOnceAndTheWorstFirst(t *testing.T) {
	p := newNamespace(t)
	node := "lost-" + p.ns
	p.lostNode(node)
	var onNode []string
	for i := range 40 {
		name := fmt.Sprintf("pod-%02d", i)
		p.runningPod(name, node, onLostNode)
		onNode = append(onNode, "Pod/"+name)
	}
	p.runningPod("hungry", "node-0", outOfMemory)
	p.runningPod("fine", "node-0", running)
	d, own, _ := p.deployment(2)
	p.status(d, `{"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}}`)
	pod := newPod("web-1-a", own, "ReplicaSet")
	p.create(pod)
	p.status(pod, unschedulable)
	nodes := cluster.Rule("", "nodes", "list")
	config := p.User(t, "", append(listPermissions(), nodes)...)
	o := p.overview(config)
	checkProblems(t, o,
		problem{explain.Failing, "NodeLost", onNode},
		problem{explain.Failing, "OOMKilled", []string{"Pod/hungry"}},
		problem{explain.Failing, "FailedScheduling", []string{"Deployment/web"}})
	if o.Checked != 44 || !slices.Equal(o.NotChecked, otherTypes) || o.Incomplete() != nil {
		t.Errorf("checked %d objects, could not read %v", o.Checked, o.NotChecked)
	}
	got := overviewText(t, o)
	for _, says := range []string{
		"Namespace " + p.ns + ": 3 problems, 44 objects of Kubernetes and Bongsu checked\n", "Pod " + p.ns + "/pod-00, Pod " + p.ns + "/pod-01 and 38 more  node \"" + node + "\" of the pod does not respond: wait",
		"For details: bongsu explain pod/pod-00 -n " + p.ns + "\n",
	} {
		if !strings.Contains(got, says) {
			t.Errorf("%q is missing in:\n%s", says, got)
		}
	}
}

func TestTheOverviewMergesObjectsWithOneCauseOnly(t *testing.T) {
	p := newNamespace(t)
	for _, name := range []string{"a", "b"} {
		pod := newPod("image-"+name, nil, "")
		p.create(pod)
		p.bind(pod)
		p.event("Pod", pod.Name, "spec.containers{app}", "Failed", `Failed to pull image "example.com/app:1": rpc error: code = NotFound desc = example.com/app:1: not found`)
		p.runningPod("hungry-"+name, "node-0", outOfMemory)
	}
	checkProblems(t, p.overview(p.user(listPermissions()...)),
		problem{explain.Failing, "ErrImagePull", []string{"Pod/image-a", "Pod/image-b"}},
		problem{explain.Failing, "OOMKilled", []string{"Pod/hungry-a"}},
		problem{explain.Failing, "OOMKilled", []string{"Pod/hungry-b"}})
}

// otherTypes are those that no overview contains.
var otherTypes = []explain.NotChecked{{
	What: "apiservices, certificatesigningrequests, persistentvolumes, replicationcontrollers", Why: "an overview does not contain them; name one to explain it",
}}

func TestTheOverviewShowsEveryCauseOfADeployment(t *testing.T) {
	p := newNamespace(t)
	d, own, _ := p.deployment(2)
	p.status(d, `{"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}}`)
	for name, status := range map[string]string{"web-1-a": unschedulable, "web-1-b": outOfMemory} {
		pod := newPod(name, own, "ReplicaSet")
		p.create(pod)
		if name == "web-1-b" {
			p.bind(pod)
		}
		p.status(pod, status)
	}
	o := p.overview(p.user(listPermissions()...))
	checkProblems(t, o,
		problem{explain.Failing, "FailedScheduling", []string{"Deployment/web"}},
		problem{explain.Failing, "OOMKilled", []string{"Deployment/web"}})
	if diff := cmp.Diff(append([]explain.NotChecked{{What: "nodes", Why: "you may not list them"}}, otherTypes...), o.NotChecked); diff != "" || o.Incomplete() != nil {
		t.Error(diff, o.Incomplete())
	}
}

func TestTheOverviewNamesWhatItCouldNotRead(t *testing.T) {
	p := newNamespace(t)
	p.runningPod("hungry", "node-0", outOfMemory)
	d, own, _ := p.deployment(1)
	p.status(d, `{"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}}`)
	pod := newPod("web-1-a", own, "ReplicaSet")
	p.create(pod)
	p.status(pod, unschedulable)
	// Without the Deployment, its pods are explained one by one.
	o := p.overview(p.user(cluster.Rule("", "pods", "list")))
	checkProblems(t, o,
		problem{explain.Failing, "OOMKilled", []string{"Pod/hungry"}},
		problem{explain.Failing, "FailedScheduling", []string{"Pod/web-1-a"}})
	got := overviewText(t, o)
	for _, what := range []string{"deployments.apps", "jobs.batch", "events", "nodes"} {
		if !strings.Contains(got, "could not read "+what+": you may not list them\n") {
			t.Errorf("%s is missing in:\n%s", what, got)
		}
	}
	if err := o.Incomplete(); err == nil || !strings.Contains(err.Error(), "deployments.apps") {
		t.Errorf("got %v", err)
	}
	if o := p.overview(p.user()); len(o.Problems) > 0 || o.Checked != 0 || o.Incomplete() == nil {
		t.Errorf("a user without permissions gets %s", asJSON(t, o))
	}
}

func TestTheOverviewIgnoresWhatIsStoppedOrWaitsForItsFirstPod(t *testing.T) {
	p := newNamespace(t)
	d, _, _ := p.deployment(0)
	p.status(d, `{"status": {"observedGeneration": 1}}`)
	p.create(newClaim("data"))
	o := p.overview(p.user(listPermissions()...))
	checkProblems(t, o)
	if got, want := overviewText(t, o), "Namespace "+p.ns+": no problem, 3 objects of Kubernetes and Bongsu checked\n\nnot checked: "+otherTypes[0].What+": "+otherTypes[0].Why+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheOverviewOfAMissingNamespaceFails(t *testing.T) {
	c := cluster.Shared(t)
	e, err := explain.New(c.RESTConfig(), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Overview(t.Context(), "no-such-namespace"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestAnUnreachableClusterIsNoEmptyOverview(t *testing.T) {
	e, err := explain.New(&rest.Config{Host: "https://127.0.0.1:1"}, clock.RealClock{})
	if err != nil {
		return
	}
	if o, err := e.Overview(t.Context(), ""); err == nil {
		t.Errorf("got %s", asJSON(t, o))
	}
}
