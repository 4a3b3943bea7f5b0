package explain_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/explain"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// appService creates an AppService web.
func (p *place) appService(spec string, finalizers ...string) *v1alpha1.AppService {
	p.t.Helper()
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: finalizers}}
	if err := yaml.UnmarshalStrict([]byte(spec), &a.Spec); err != nil {
		p.t.Fatal(err)
	}
	p.create(a)
	return a
}

// appDeployment creates what the operator makes of the app, and the ReplicaSet of it.
func (p *place) appDeployment(a *v1alpha1.AppService, change func(*appsv1.Deployment)) *appsv1.ReplicaSet {
	p.t.Helper()
	pod, refused := workload.AppPod(a, "example.com/app:1")
	if len(refused) > 0 {
		p.t.Fatal(refused)
	}
	d := workload.AppDeployment(a, pod)
	if change != nil {
		change(d)
	}
	p.create(d)
	return p.appSet("web-1", d, d)
}

func (p *place) appSet(name string, like *appsv1.Deployment, owner client.Object) *appsv1.ReplicaSet {
	p.t.Helper()
	r := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: like.Spec.Template.Labels},
		Spec:       appsv1.ReplicaSetSpec{Replicas: like.Spec.Replicas, Selector: like.Spec.Selector, Template: like.Spec.Template},
	}
	if owner != nil {
		r.OwnerReferences = ownedBy(owner, "Deployment")
	}
	p.create(r)
	return r
}

// appPod creates a pod of a ReplicaSet that fares as status says.
func (p *place) appPod(name string, set *appsv1.ReplicaSet, status string) {
	p.t.Helper()
	pod := newPod(name, set, "ReplicaSet")
	pod.Labels = set.Spec.Template.Labels
	p.create(pod)
	p.bind(pod)
	p.status(pod, status)
}

const (
	app      = "appservices.bongsu.io"
	appReady = `{"type": "Ready", "status": "True", "reason": "Ready", "message": "2 of 2 pods are ready", "lastTransitionTime": "2026-03-01T09:00:00Z"}`
)

// appUnready is a status whose Ready condition is False for a reason.
func appUnready(reason, message string) string {
	return `{"status": {"replicas": 2, "readyReplicas": 1, "conditions": [
		{"type": "Ready", "status": "False", "reason": "` + reason + `", "message": "` + message + `", "lastTransitionTime": "2026-03-01T09:00:00Z"}],
		"lastFailure": {"reason": "ImagePullBackOff", "message": "image cannot be \u001b[31mpulled", "object": {"kind": "Pod", "name": "web-1-a"},
			"firstTime": "2026-03-01T09:00:00Z", "lastTime": "2026-03-01T09:00:00Z", "count": 2}}}`
}

func TestAppServicesAreExplainedByWhatTheySayOfThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, status string
		state        explain.State
		cause        string
		says         []string
	}{
		"not looked at": {"size: 2", "", explain.Waiting, "", []string{"the operator has not looked at it yet; is it running?"}},
		"suspended":     {"{size: 2, suspend: true}", appUnready("Suspended", "it is stopped"), explain.Stopped, "", []string{"set spec.suspend to false"}},
		"ready":         {"size: 2", `{"status": {"readyReplicas": 2, "conditions": [` + appReady + `]}}`, explain.Running, "", []string{"web runs fine: 2 of 2 pods ready\n"}},
		"of no pods":    {"size: 0", `{"status": {"conditions": [` + appReady + `]}}`, explain.Stopped, "", []string{"web is stopped: it is scaled to 0 pods"}},
		"on its way":    {"size: 2", appUnready("RollingOut", "1 of 2 pods are ready"), explain.Waiting, "", []string{"1 of 2 pods ready", "could not read deployments: you may not get them"}},
		"not ready": {"size: 2", appUnready("ImagePullBackOff", `image \"x\" cannot be pulled: \u001b[31mno`), explain.Failing, "ImagePullBackOff", []string{
			"Cause: ImagePullBackOff in AppService web (last ", `image "x" cannot be pulled: [31mno`, "Conditions:\n  Ready False: ImagePullBackOff: image",
			"Last failure: ImagePullBackOff in Pod web-1-a (2 times, last ", "could not read deployments: you may not get them",
		}},
		"unhealthy": {"size: 2", `{"status": {"readyReplicas": 2, "unhealthy": 1, "unknown": 1, "conditions": [` + appReady + `], "podStatuses": [
			{"name": "web-1-a", "podUID": "a", "health": "Unknown", "lastTransitionTime": "2026-03-01T09:00:00Z", "reason": "NotChecked"},
			{"name": "web-1-b", "podUID": "b", "health": "Unhealthy", "consecutiveFailures": 4, "lastTransitionTime": "2026-03-01T09:00:00Z", "reason": "HealthCheckFailed", "message": "HTTP \u001b[31m503"}]}}`,
			explain.Failing, "HealthCheckFailed", []string{
				"web does not run as it should: 2 of 2 pods ready, 1 unhealthy\n", "Cause: HealthCheckFailed in Pod web-1-b (4 times, last ",
				"the health check finds the pod unhealthy: HTTP [31m503\n", "Not healthy by the health check:\n  Pod web-1-a: Unknown since ",
				": NotChecked\n  Pod web-1-b: Unhealthy since ", ": HealthCheckFailed, 4 failures in a row: HTTP [31m503\n",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a := p.appService(tc.spec)
			if tc.status != "" {
				p.status(a, tc.status)
			}
			x := p.explain(p.user(cluster.Rule("bongsu.io", "appservices", "get"), cluster.Rule("", "events", "list")), app, "web")
			checkState(t, x, tc.state, tc.cause)
			checkText(t, x, tc.says...)
			if strings.Contains(text(t, x)+asJSON(t, x), "\x1b") || strings.Contains(asJSON(t, x), `\u001b`) {
				t.Error("it has a control character")
			}
		})
	}
}

// checkState checks the state and the reason of the cause, which is empty for none.
func checkState(t *testing.T, x *explain.Explanation, state explain.State, reason string) {
	t.Helper()
	got := ""
	if x.Cause != nil {
		got = x.Cause.Reason
	}
	if x.State != state || got != reason {
		t.Errorf("want %s by %q; got %s", state, reason, asJSON(t, x))
	}
}

func TestAnAppServiceThatMayNotBeRead(t *testing.T) {
	p := newPlace(t)
	p.appService("size: 1")
	x := p.explain(p.user(cluster.Rule("", "events", "list")), app, "web")
	checkState(t, x, explain.Unknown, "")
	checkText(t, x, "could not read appservices.bongsu.io web: you may not get it")
}

func TestAnAppServiceIsExplainedByItsOwnPods(t *testing.T) {
	orphan := func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil }
	for name, tc := range map[string]struct {
		spec   string
		change func(*appsv1.Deployment)
		state  explain.State
		cause  string
	}{
		"a child of its":               {"size: 2", nil, explain.Failing, "OOMKilled"},
		"one that is to outlive it":    {"{size: 2, deletionPolicy: Retain}", nil, explain.Failing, "OOMKilled"},
		"one that waits for a backup":  {"{size: 2, backup: {exec: {command: [save]}}}", nil, explain.Failing, "OOMKilled"},
		"somebody else's of that name": {"{size: 2, deletionPolicy: Retain}", orphan, explain.Waiting, ""},
		"another owner's": {"{size: 2, deletionPolicy: Retain}", func(d *appsv1.Deployment) {
			d.OwnerReferences = ownedBy(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "another"}}, "AppService")
		}, explain.Waiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a := p.appService(tc.spec)
			p.status(a, appUnready("PodsNotReady", "1 of 2 pods are ready"))
			p.appPod("web-1-a", p.appDeployment(a, tc.change), outOfMemory)
			x := p.explain(p.user(everything()...), app, "web")
			checkState(t, x, tc.state, tc.cause)
			if x.Cause != nil && x.Cause.Object.Name != "web-1-a" {
				t.Errorf("got %s", asJSON(t, x))
			}
		})
	}
}

func TestPodsThatWearTheLabelOfAnAppServiceAreNotItsOwn(t *testing.T) {
	p := newPlace(t)
	a := p.appService("size: 2")
	p.status(a, appUnready("PodsNotReady", "1 of 2 pods are ready"))
	p.appDeployment(a, nil)
	foreign := p.appSet("other", workload.AppDeployment(a, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: workload.Labels(a)}, Spec: newPod("", nil, "").Spec,
	}), nil)
	p.appPod("other-a", foreign, outOfMemory)
	checkState(t, p.explain(p.user(everything()...), app, "web"), explain.Waiting, "")
}

func TestAnInvalidFieldGoesBeforeWhatPodsSuffer(t *testing.T) {
	p := newPlace(t)
	a := p.appService("size: 2")
	p.status(a, appUnready("InvalidSpec", "spec.template is not allowed"))
	p.appPod("web-1-a", p.appDeployment(a, nil), outOfMemory)
	x := p.explain(p.user(everything()...), app, "web")
	checkCause(t, x, "InvalidSpec", explain.Object{Kind: "AppService", Name: "web"}, "spec.template is not allowed")
	if len(x.Others) != 1 || x.Others[0].Reason != "OOMKilled" {
		t.Errorf("got %s", asJSON(t, x.Others))
	}
}
