package explain_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func checkCause(t *testing.T, x *explain.Explanation, reason string, object explain.Object, says string) {
	t.Helper()
	if x.State != explain.Failing || x.Cause == nil || x.Cause.Reason != reason || x.Cause.Object != object || !strings.Contains(x.Cause.Message, says) {
		t.Errorf("want %s in %v: %s; got %s", reason, object, says, asJSON(t, x))
	}
}

func checkText(t *testing.T, x *explain.Explanation, lines ...string) {
	t.Helper()
	got := text(t, x)
	for _, line := range lines {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in:\n%s", line, got)
		}
	}
}

func TestUnreadableObjectsAreListedAndTheRestIsExplained(t *testing.T) {
	p := newNamespace(t)
	pod := newPod("web", nil, "")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	p.create(pod)
	p.status(pod, unschedulable)
	x := p.explain(p.user(cluster.Rule("", "pods", "get")), "pods", "web")
	checkCause(t, x, "FailedScheduling", explain.Object{Kind: "Pod", Name: "web"}, "no node can take the pod: 3 Insufficient cpu")
	want := []explain.NotChecked{
		{What: "persistentvolumeclaims", Why: "you may not get them"}, {What: "events", Why: "you may not list them"}, {What: "nodes", Why: "you may not list them"},
	}
	if diff := cmp.Diff(want, x.NotChecked); diff != "" {
		t.Error(diff)
	}
	checkText(t, x, "Pod "+p.ns+"/web does not run as it should: 0 of 1 container ready\n", "Cause: FailedScheduling in Pod web (last ",
		"  Advice: request less cpu", "could not read nodes: you may not list them\n")
}

func TestAnUnreadableObjectIsExplainedFromItsEvents(t *testing.T) {
	p := newNamespace(t)
	pod := newPod("web", nil, "")
	p.create(pod)
	p.event("Pod", "web", "spec.containers{app}", "Failed", `Failed to pull image "example.com/app:1": rpc error: code = NotFound desc = example.com/app:1: not found`)
	x := p.explain(p.user(cluster.Rule("", "events", "list")), "pods", "web")
	if x.State != explain.Unknown || x.Cause == nil || x.Cause.Reason != "ErrImagePull" {
		t.Errorf("got %s", asJSON(t, x))
	}
	checkText(t, x, "web has an unknown state: you may not read it", "Possible cause: ErrImagePull in Pod web", "no such image or tag")
	if !slices.Contains(x.NotChecked, explain.NotChecked{What: "pods web", Why: "you may not get it"}) {
		t.Errorf("got %v", x.NotChecked)
	}
}

func TestADeletedPodIsExplainedFromItsEvents(t *testing.T) {
	p := newNamespace(t)
	if _, err := p.tryExplain(p.user(viewPermissions()...), "pods", "web"); !apierrors.IsNotFound(err) {
		t.Errorf("the pod has neither existed nor Events, but got %v", err)
	}
	p.event("Pod", "web", "", "Evicted", "The node was low on resource: memory. ")
	x := p.explain(p.user(viewPermissions()...), "pods", "web")
	checkCause(t, x, "Evicted", explain.Object{Kind: "Pod", Name: "web"}, "the node ran low on memory")
	checkText(t, x, "it no longer exists; the cause comes from its Events")
}

// deployment creates a Deployment with a ReplicaSet, and another ReplicaSet that has the
// same labels but no owner.
func (p *testNamespace) deployment(wanted int32) (d *appsv1.Deployment, own, foreign *appsv1.ReplicaSet) {
	p.t.Helper()
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", nil, "").Spec}
	d = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	p.create(d)
	set := func(name string, owner client.Object) *appsv1.ReplicaSet {
		r := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}
		if owner != nil {
			r.OwnerReferences = ownedBy(owner, "Deployment")
		}
		p.create(r)
		return r
	}
	return d, set("web-1", d), set("other", nil)
}

func TestADeploymentIsExplainedByItsOwnPods(t *testing.T) {
	p := newNamespace(t)
	d, own, foreign := p.deployment(2)
	p.status(d, `{"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}}`)
	for name, owner := range map[string]client.Object{"web-1-a": own, "other-a": foreign} {
		pod := newPod(name, owner, "ReplicaSet")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		p.create(pod)
		p.bind(pod)
		p.status(pod, outOfMemory)
	}
	x := p.explain(p.user(viewPermissions()...), "deployments.apps", "web")
	checkCause(t, x, "OOMKilled", explain.Object{Kind: "Pod", Name: "web-1-a"}, "limit of 64Mi")
	if len(x.Others) > 0 || x.Cause.Count != 4 || *x.Cause.ExitCode != 137 {
		t.Errorf("got %s", asJSON(t, x))
	}
	checkText(t, x, "Deployment "+p.ns+"/web does not run as it should: 1 of 2 pods ready", "Cause: OOMKilled in Pod web-1-a, container app, exit code 137 (4 times, last ",
		"could not read the log of container app of pod web-1-a: you may not get pods/log")
}

func TestARunningDeploymentHasNoCause(t *testing.T) {
	p := newNamespace(t)
	d, own, _ := p.deployment(1)
	p.status(d, `{"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}}`)
	pod := newPod("web-1-a", own, "ReplicaSet")
	p.create(pod)
	p.bind(pod)
	p.status(pod, running)
	p.eventAt(time.Now().Add(time.Minute), "ReplicaSet", "web-1", "", "FailedCreate", `Error creating: pods "web-1-" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`)
	x := p.explain(p.user(viewPermissions()...), "deployments.apps", "web")
	notChecked := []explain.NotChecked{
		{What: "the log of container app of pod web-1-a", Why: "you may not get pods/log"},
		{What: "horizontalpodautoscalers.autoscaling", Why: "you may not list them"},
	}
	slices.SortFunc(x.NotChecked, func(a, b explain.NotChecked) int { return strings.Compare(a.Why, b.Why) })
	if x.State != explain.Running || x.Cause != nil || !slices.Equal(x.NotChecked, notChecked) {
		t.Errorf("got %s", asJSON(t, x))
	}
	if x.LastCrash == nil || x.LastCrash.Reason != "Error" || *x.LastCrash.ExitCode != 3 {
		t.Errorf("the last crash is %s", asJSON(t, x.LastCrash))
	}
	checkText(t, x, "web runs fine: 1 of 1 pod ready\n", "Before that: Error in Pod web-1-a, container app, exit code 3 (last ")
}

func TestADeploymentWithoutPodsNamesTheExceededQuota(t *testing.T) {
	p := newNamespace(t)
	d, _, _ := p.deployment(1)
	p.status(d, `{"status": {"observedGeneration": 1, "conditions": [
		{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"web-1-x\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4"}]}}`)
	want := func(x *explain.Explanation, object explain.Object) {
		t.Helper()
		checkCause(t, x, "QuotaExceeded", object, `ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 4`)
	}
	want(p.explain(p.user(viewPermissions()...), "deployments.apps", "web"), explain.Object{Kind: "Deployment", Name: "web"})
	p.event("ReplicaSet", "web-1", "", "FailedCreate", `Error creating: pods "web-1-" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`)
	want(p.explain(p.user(viewPermissions()...), "deployments.apps", "web"), explain.Object{Kind: "ReplicaSet", Name: "web-1"})
}

func TestTheMessageOfAnExceededQuotaNamesThePodsThatUseMost(t *testing.T) {
	p := newNamespace(t)
	d, _, _ := p.deployment(1)
	p.status(d, `{"status": {"observedGeneration": 1}}`)
	other := newPod("other", nil, "")
	other.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}
	p.create(other)
	hard := corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("4Gi")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	p.create(quota)
	p.status(quota, `{"status": {"hard": {"requests.memory": "4Gi"}, "used": {"requests.memory": "3Gi"}}}`)
	p.event("ReplicaSet", "web-1", "", "FailedCreate",
		`Error creating: pods "web-1-" is forbidden: exceeded quota: team, requested: requests.memory=2Gi, used: requests.memory=3Gi, limited: requests.memory=4Gi`)
	checkCause(t, p.explain(p.user(viewPermissions()...), "deployments.apps", "web"), "QuotaExceeded",
		explain.Object{Kind: "ReplicaSet", Name: "web-1"}, "pods that use most: other (3Gi)")
}

func TestAStatefulSetWithoutPodsNamesTheExceededQuota(t *testing.T) {
	p := newNamespace(t)
	labels := map[string]string{"app": "web"}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", nil, "").Spec},
		},
	}
	p.create(s)
	p.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("9")}}})
	p.event("StatefulSet", "db", "", "FailedCreate", `create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`)
	x := p.explain(p.user(viewPermissions()...), "statefulsets.apps", "db")
	checkCause(t, x, "QuotaExceeded", explain.Object{Kind: "StatefulSet", Name: "db"}, `ResourceQuota "team" is exceeded`)
	pod := newPod("db-0", s, "StatefulSet")
	p.create(pod)
	p.status(pod, unschedulable)
	checkCause(t, p.explain(p.user(viewPermissions()...), "statefulsets.apps", "db"), "FailedScheduling", explain.Object{Kind: "Pod", Name: "db-0"}, "no node")
}

func TestAFailedJobShowsItsCondition(t *testing.T) {
	p := newNamespace(t)
	spec := newPod("", nil, "").Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "import"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	p.create(j)
	p.status(j, `{"status": {"failed": 1, "startTime": "2026-03-01T09:00:00Z", "conditions": [
		{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": "2026-03-01T09:00:00Z"},
		{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-03-01T09:00:00Z"}]}}`)
	x := p.explain(p.user(viewPermissions()...), "jobs.batch", "import")
	checkCause(t, x, "Error", explain.Object{Kind: "Job", Name: "import"}, "Job has reached the specified backoff limit")
	checkText(t, x, "0 active, 0 succeeded, 1 failed")
}

func TestAClaimWithoutItsStorageClass(t *testing.T) {
	p := newNamespace(t)
	c := newClaim("data")
	p.create(c)
	user := p.user(viewPermissions()...)
	if x := p.explain(user, "persistentvolumeclaims", "data"); x.State != explain.Waiting || x.Cause != nil {
		t.Errorf("got %s", asJSON(t, x))
	}
	p.event("PersistentVolumeClaim", "data", "", "ProvisioningFailed", `storageclass.storage.k8s.io "fast" not found`)
	checkCause(t, p.explain(user, "persistentvolumeclaims", "data"), "ProvisioningFailed", explain.Object{Kind: "PersistentVolumeClaim", Name: "data"}, `StorageClass "fast" does not exist`)
}

func TestTheEndOfTheLogIsShown(t *testing.T) {
	p := newNamespace(t)
	pod := newPod("web", nil, "")
	p.create(pod)
	p.bind(pod)
	p.status(pod, outOfMemory)
	var log strings.Builder
	for i := range 15 {
		_, _ = fmt.Fprintf(&log, "line %d\n", i)
	}
	log.WriteString("\x1b[31mfatal\x1b[0m: \u202eno memory\x07\n" + strings.Repeat("é", 5000) + "\n")
	config, asked := withLogs(t, p.user(viewPermissions()...), log.String())
	x := p.explain(config, "pods", "web")
	if x.Log == nil || !x.Log.Previous || len(x.Log.Lines) != 10 {
		t.Fatalf("got %s", asJSON(t, x.Log))
	}
	if got := x.Log.Lines[8]; got != "[31mfatal[0m: no memory" {
		t.Errorf("got %q", got)
	}
	if got := len([]rune(x.Log.Lines[9])); got > 401 {
		t.Errorf("a line of %d characters", got)
	}
	want := []string{"/api/v1/namespaces/" + p.ns + "/pods/web/log?container=app&limitBytes=16384&previous=true&tailLines=10"}
	if diff := cmp.Diff(want, asked()); diff != "" {
		t.Error(diff)
	}
	checkText(t, x, "The end of the log of Pod web, container app:\n  | line 7\n", "  | [31mfatal[0m: no memory\n")
}

func TestALogWithAFormatErrorNamesTheCause(t *testing.T) {
	p := newNamespace(t)
	pod := newPod("web", nil, "")
	p.create(pod)
	p.bind(pod)
	p.status(pod, strings.Replace(outOfMemory, `"exitCode": 137, "reason": "OOMKilled"`, `"exitCode": 1, "reason": "Error"`, 1))
	config, _ := withLogs(t, p.user(viewPermissions()...), "exec /app: exec format error\n")
	x := p.explain(config, "pods", "web")
	checkCause(t, x, "CrashLoopBackOff", explain.Object{Kind: "Pod", Name: "web"}, "exit code 1: its command is built for another CPU architecture")
}

func TestAJupyterIsExplainedFromItsStatus(t *testing.T) {
	p := newNamespace(t)
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Name: "anna"}}
	p.create(j)
	user := p.user(cluster.Rule("bongsu.io", "jupyters", "get"), cluster.Rule("", "events", "list"))
	if x := p.explain(user, "jupyters.bongsu.io", "anna"); x.State != explain.Waiting || !strings.Contains(x.Summary, "the operator has not processed it") {
		t.Errorf("got %s", asJSON(t, x))
	}
	p.status(j, `{"status": {"readyReplicas": 0, "conditions": [
		{"type": "Ready", "status": "False", "reason": "ImagePullBackOff", "message": "image \"x\" cannot be pulled: \u001b[31mno", "lastTransitionTime": "2026-03-01T09:00:00Z"}],
		"lastFailure": {"reason": "ImagePullBackOff", "message": "image \"x\" cannot be pulled", "object": {"kind": "Pod", "name": "anna-0"}, "container": "notebook",
			"firstTime": "2026-03-01T09:00:00Z", "lastTime": "2026-03-01T09:00:00Z", "count": 2}}}`)
	x := p.explain(user, "jupyters.bongsu.io", "anna")
	checkCause(t, x, "ImagePullBackOff", explain.Object{Kind: "Jupyter", Name: "anna"}, `image "x" cannot be pulled: [31mno`)
	checkText(t, x, "Conditions:\n  Ready False: ImagePullBackOff: as above\n", "Last failure: ImagePullBackOff in Pod anna-0, container notebook (2 times, last ",
		"could not read statefulsets: you may not get them")
	if strings.Contains(text(t, x), "\x1b") {
		t.Error("it has a control character")
	}
	if err := p.Client.Patch(t.Context(), j, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": true}}`))); err != nil {
		t.Fatal(err)
	}
	if x := p.explain(user, "jupyters.bongsu.io", "anna"); x.State != explain.Stopped || x.Cause != nil {
		t.Errorf("got %s", asJSON(t, x))
	}
	p.status(j, `{"status": {"conditions": [
		{"type": "Stalled", "status": "True", "reason": "NodeLost", "message": "the pod cannot be deleted", "lastTransitionTime": "2026-03-01T09:00:00Z"}]}}`)
	checkCause(t, p.explain(user, "jupyters.bongsu.io", "anna"), "NodeLost", explain.Object{Kind: "Jupyter", Name: "anna"}, "the pod cannot be deleted")
}

func TestAReadyButStalledJupyterNamesTheCause(t *testing.T) {
	p := newNamespace(t)
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Name: "anna"}}
	p.create(j)
	for reason, message := range map[string]string{"ResourceConflict": "Service anna has another owner", "SecretNotFound": "Secret token does not exist"} {
		p.status(j, fmt.Sprintf(`{"status": {"readyReplicas": 1, "conditions": [
			{"type": "Ready", "status": "True", "reason": "Ready", "message": "it is ready", "lastTransitionTime": "2026-03-01T09:00:00Z"},
			{"type": "Stalled", "status": "True", "reason": %q, "message": %q, "lastTransitionTime": "2026-03-01T09:00:00Z"}]}}`, reason, message))
		x := p.explain(p.user(viewPermissions()...), "jupyters.bongsu.io", "anna")
		checkCause(t, x, reason, explain.Object{Kind: "Jupyter", Name: "anna"}, message)
	}
}

func TestATypeThatTheServerDoesNotHaveCannotBeExplained(t *testing.T) {
	p := newNamespace(t)
	if _, err := p.tryExplain(p.RESTConfig(), "widgets.example.com", "x"); !meta.IsNoMatchError(err) {
		t.Errorf("got %v", err)
	}
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// testNamespace is a namespace of one test. There are no nodes and controllers: the
// tests write the statuses.
type testNamespace struct {
	*cluster.Cluster
	t  *testing.T
	ns string
}

func newNamespace(t *testing.T) *testNamespace {
	t.Helper()
	c := cluster.Shared(t)
	p := &testNamespace{Cluster: c, t: t, ns: c.Namespace(t, nil)}
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return p
}

func (p *testNamespace) create(o client.Object) {
	p.t.Helper()
	o.SetNamespace(p.ns)
	if err := p.Client.Create(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
}

func (p *testNamespace) status(o client.Object, merge string) {
	p.t.Helper()
	if err := p.Client.Status().Patch(p.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(merge))); err != nil {
		p.t.Fatal(err)
	}
}

// user returns the configuration of a user with these permissions in the namespace.
func (p *testNamespace) user(rules ...rbacv1.PolicyRule) *rest.Config {
	return p.User(p.t, p.ns, rules...)
}

// viewPermissions are the permissions that explain needs and the role view grants.
func viewPermissions() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		cluster.Rule("", "pods", "get", "list"), cluster.Rule("", "events", "list"),
		cluster.Rule("", "persistentvolumeclaims", "get"), cluster.Rule("", "resourcequotas", "list"),
		cluster.Rule("apps", "deployments", "get"), cluster.Rule("apps", "replicasets", "list"),
		cluster.Rule("apps", "statefulsets", "get"), cluster.Rule("batch", "jobs", "get"), cluster.Rule("bongsu.io", "jupyters", "get"),
		cluster.Rule("bongsu.io", "appservices", "get"),
	}
}

func (p *testNamespace) tryExplain(config *rest.Config, resource, name string) (*explain.Explanation, error) {
	p.t.Helper()
	e, err := explain.New(config, clock.RealClock{})
	if err != nil {
		p.t.Fatal(err)
	}
	return e.Explain(p.t.Context(), schema.ParseGroupResource(resource), p.ns, name)
}

func (p *testNamespace) explain(config *rest.Config, resource, name string) *explain.Explanation {
	p.t.Helper()
	x, err := p.tryExplain(config, resource, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return x
}

// text returns the text output.
func text(t *testing.T, x *explain.Explanation) string {
	t.Helper()
	var out strings.Builder
	if err := explain.WriteText(&out, x, time.Now()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// newPod returns a pod with the container app, and an owner unless it is nil.
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

// newClaim returns a claim of StorageClass fast.
func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("fast"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

func ownedBy(owner client.Object, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
}

// bind assigns the pod to a node, like the scheduler.
func (p *testNamespace) bind(pod *corev1.Pod) {
	p.t.Helper()
	err := p.Client.SubResource("binding").Create(p.t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// Pod statuses as a kubelet writes them.
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

// event creates an Event. Its object need not exist.
func (p *testNamespace) event(kind, name, fieldPath, reason, note string) {
	p.t.Helper()
	p.eventAt(time.Now(), kind, name, fieldPath, reason, note)
}

func (p *testNamespace) eventAt(at time.Time, kind, name, fieldPath, reason, note string) {
	p.t.Helper()
	now := metav1.NewTime(at)
	p.create(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: p.ns, Name: name, FieldPath: fieldPath},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: note, Count: 2, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet"},
	})
}

// withLogs starts a proxy to the API server that answers requests for logs itself,
// because there is no kubelet. It does not check permissions: tests of these use the API
// server directly.
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

func TestADaemonSetAndAReplicaSetAreExplainedByTheirOwnPods(t *testing.T) {
	labels := map[string]string{"app": "web"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", nil, "").Spec}
	for kind, tc := range map[string]struct {
		resource, status string
		object           client.Object
	}{
		"DaemonSet": {"daemonsets.apps", `{"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 1, "numberMisscheduled": 0}}`,
			&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}},
		"ReplicaSet": {"replicasets.apps", `{"status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}}`,
			&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: selector, Template: template}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newNamespace(t)
			tc.object.SetName("agent")
			p.create(tc.object)
			p.status(tc.object, tc.status)
			pod := newPod("agent-a", tc.object, kind)
			p.create(pod)
			p.bind(pod)
			p.status(pod, outOfMemory)
			p.create(newPod("foreign", nil, ""))
			user := p.user(append(viewPermissions(), cluster.Rule("apps", "daemonsets", "get"), cluster.Rule("apps", "replicasets", "get"))...)
			x := p.explain(user, tc.resource, "agent")
			checkCause(t, x, "OOMKilled", explain.Object{Kind: "Pod", Name: "agent-a"}, "ran out of memory")
			checkText(t, x, kind+" "+p.ns+"/agent does not run as it should: 1 of 2 pods ready")
		})
	}
}

func TestACronJobIsExplainedByItsLastJob(t *testing.T) {
	p := newNamespace(t)
	spec := newPod("", nil, "").Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job},
	}}
	p.create(c)
	cronJobs := cluster.Rule("batch", "cronjobs", "get")
	user := p.user(append(viewPermissions(), cronJobs, cluster.Rule("batch", "jobs", "list"))...)
	if x := p.explain(user, "cronjobs.batch", "report"); x.State != explain.Running || x.Cause != nil {
		t.Errorf("got %s", asJSON(t, x))
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "report-1", OwnerReferences: ownedBy(c, "CronJob")}, Spec: job}
	p.create(j)
	p.status(j, `{"status": {"failed": 1, "startTime": "2026-03-01T09:00:00Z", "conditions": [
		{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": "2026-03-01T09:00:00Z"},
		{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-03-01T09:00:00Z"}]}}`)
	x := p.explain(user, "cronjobs.batch", "report")
	checkCause(t, x, "Error", explain.Object{Kind: "Job", Name: "report-1"}, "backoff limit")
	checkText(t, x, "CronJob "+p.ns+"/report does not run as it should: the last Job is report-1: 0 active, 0 succeeded, 1 failed")
	if x := p.explain(p.user(cronJobs), "cronjobs.batch", "report"); x.State != explain.Unknown {
		t.Errorf("without permission to list Jobs: %s", asJSON(t, x))
	}
}
