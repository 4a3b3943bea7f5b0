package explain_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// appService creates an AppService web.
func (p *testNamespace) appService(spec string, finalizers ...string) *v1alpha1.AppService {
	p.t.Helper()
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: finalizers}}
	if err := yaml.UnmarshalStrict([]byte(spec), &a.Spec); err != nil {
		p.t.Fatal(err)
	}
	p.create(a)
	return a
}

// appDeployment creates the Deployment that the operator creates for the app, and its
// ReplicaSet.
func (p *testNamespace) appDeployment(a *v1alpha1.AppService, change func(*appsv1.Deployment)) *appsv1.ReplicaSet {
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

func (p *testNamespace) appSet(name string, like *appsv1.Deployment, owner client.Object) *appsv1.ReplicaSet {
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

// appPod creates a pod of a ReplicaSet with a status.
func (p *testNamespace) appPod(name string, set *appsv1.ReplicaSet, status string) {
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

// appUnready returns a status whose Ready condition is False.
func appUnready(reason, message string) string {
	return `{"status": {"replicas": 2, "readyReplicas": 1, "conditions": [
		{"type": "Ready", "status": "False", "reason": "` + reason + `", "message": "` + message + `", "lastTransitionTime": "2026-03-01T09:00:00Z"}],
		"lastFailure": {"reason": "ImagePullBackOff", "message": "image cannot be \u001b[31mpulled", "object": {"kind": "Pod", "name": "web-1-a"},
			"firstTime": "2026-03-01T09:00:00Z", "lastTime": "2026-03-01T09:00:00Z", "count": 2}}}`
}

// appUnhealthy returns a status with an unhealthy pod. entry is a part of the pod's entry.
func appUnhealthy(entry string, conditions ...string) string {
	return `{"status": {"readyReplicas": 2, "unhealthy": 1, "conditions": [` + strings.Join(append(conditions, appReady), ", ") + `], "podStatuses": [
		{"name": "web-1-b", "podUID": "b", "health": "Unhealthy", "consecutiveFailures": 1, "lastTransitionTime": "2026-03-01T09:00:00Z",
		"reason": "HealthCheckFailed"` + entry + `}]}}`
}

func TestAppServicesAreExplainedFromTheirStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, status string
		state        explain.State
		cause        string
		says         []string
	}{
		"not processed": {"size: 2", "", explain.Waiting, "", []string{"the operator has not processed it yet: check that the operator is running, with the feature appservice"}},
		"suspended":     {"{size: 2, suspend: true}", appUnready("Suspended", "it is stopped"), explain.Stopped, "", []string{"set spec.suspend to false"}},
		"ready":         {"size: 2", `{"status": {"readyReplicas": 2, "conditions": [` + appReady + `]}}`, explain.Running, "", []string{"web runs fine: 2 of 2 pods ready\n"}},
		"without pods":  {"size: 0", `{"status": {"conditions": [` + appReady + `]}}`, explain.Stopped, "", []string{"web is stopped: it is scaled to 0 pods"}},
		"rolling out":   {"size: 2", appUnready("RollingOut", "1 of 2 pods are ready"), explain.Waiting, "", []string{"1 of 2 pods ready", "could not read deployments: you may not get them"}},
		"not ready": {"size: 2", appUnready("ImagePullBackOff", `image \"x\" cannot be pulled: \u001b[31mno`), explain.Failing, "ImagePullBackOff", []string{
			"Cause: ImagePullBackOff in AppService web (last ", `image "x" cannot be pulled: [31mno`, "Conditions:\n  Ready False: ImagePullBackOff: as above\n",
			"Last failure: ImagePullBackOff in Pod web-1-a (2 times, last ", "could not read deployments: you may not get them",
		}},
		"without a feature": {"size: 2", `{"status": {"readyReplicas": 2, "conditions": [` + appReady + `, {"type": "Degraded", "status": "True",
			"reason": "FeatureDisabled", "message": "spec.backup.exec needs the feature x", "lastTransitionTime": "2026-03-01T09:00:00Z"}]}}`,
			explain.Failing, "FeatureDisabled", []string{
				"web does not run as it should: 2 of 2 pods ready\n", "Cause: FeatureDisabled in AppService web (last ", "spec.backup.exec needs the feature x",
			}},
		"unhealthy": {"size: 2", `{"status": {"readyReplicas": 2, "unhealthy": 1, "unknown": 1, "conditions": [` + appReady + `], "podStatuses": [
			{"name": "web-1-a", "podUID": "a", "health": "Unknown", "lastTransitionTime": "2026-03-01T09:00:00Z", "reason": "NotChecked"},
			{"name": "web-1-b", "podUID": "b", "health": "Unhealthy", "consecutiveFailures": 4, "lastTransitionTime": "2026-03-01T09:00:00Z", "reason": "HealthCheckFailed", "message": "HTTP \u001b[31m503"}]}}`,
			explain.Failing, "HealthCheckFailed", []string{
				"web does not run as it should: 2 of 2 pods ready, 1 unhealthy\n", "Cause: HealthCheckFailed in Pod web-1-b (4 times, last ",
				"the health check finds the pod unhealthy: HTTP [31m503\n", "Not healthy by the health check:\n  Pod web-1-a: Unknown since ",
				": NotChecked\n  Pod web-1-b: Unhealthy since ", ": HealthCheckFailed, 4 failures in a row: HTTP [31m503\n",
			}},
		"unhealthy, and replaced": {"{size: 2, healthCheck: {httpGet: {port: 80}, remedy: Restart}}",
			appUnhealthy(`, "lastCheckTime": "` + time.Now().UTC().Add(-4*time.Minute).Format(time.RFC3339) + `"`),
			explain.Failing, "HealthCheckFailed", []string{
				"Cause: HealthCheckFailed in Pod web-1-b (last 4m", "the operator replaces such pods, as far as maxRestartsPerHour allows\n",
				": HealthCheckFailed, 1 failure in a row as of 4m",
			}},
		"unhealthy, and not replaced": {"{size: 2, healthCheck: {httpGet: {port: 80}}}", appUnhealthy(""), explain.Failing, "HealthCheckFailed", []string{
			"with remedy: Restart, the operator replaces such pods\n", ": HealthCheckFailed, 1 failure in a row\n",
		}},
		"unhealthy, and a budget refuses": {"{size: 2, healthCheck: {httpGet: {port: 80}, remedy: Restart}}", appUnhealthy("", `{"type": "EvictionBlocked",
			"status": "True", "reason": "BlockedByDisruptionBudget", "message": "PodDisruptionBudget web says no", "lastTransitionTime": "2026-03-01T09:00:00Z"}`),
			explain.Failing, "HealthCheckFailed", []string{
				"the operator cannot replace the pod: see condition EvictionBlocked\n",
				"  EvictionBlocked True: BlockedByDisruptionBudget: PodDisruptionBudget web says no\n",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newNamespace(t)
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

func TestAnUnreadableAppServiceIsUnknown(t *testing.T) {
	p := newNamespace(t)
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
		"its own Deployment":                       {"size: 2", nil, explain.Failing, "OOMKilled"},
		"its own Deployment that it retains":       {"{size: 2, deletionPolicy: Retain}", nil, explain.Failing, "OOMKilled"},
		"its own Deployment that a backup needs":   {"{size: 2, backup: {exec: {command: [save]}}}", nil, explain.Failing, "OOMKilled"},
		"a Deployment of the same name by another": {"{size: 2, deletionPolicy: Retain}", orphan, explain.Waiting, ""},
		"a Deployment that another AppService owns": {"{size: 2, deletionPolicy: Retain}", func(d *appsv1.Deployment) {
			d.OwnerReferences = ownedBy(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "another"}}, "AppService")
		}, explain.Waiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newNamespace(t)
			a := p.appService(tc.spec)
			p.status(a, appUnready("PodsNotReady", "1 of 2 pods are ready"))
			p.appPod("web-1-a", p.appDeployment(a, tc.change), outOfMemory)
			x := p.explain(p.user(viewPermissions()...), app, "web")
			checkState(t, x, tc.state, tc.cause)
			if x.Cause != nil && x.Cause.Object.Name != "web-1-a" {
				t.Errorf("got %s", asJSON(t, x))
			}
		})
	}
}

func TestPodsOfAForeignReplicaSetAreIgnored(t *testing.T) {
	p := newNamespace(t)
	a := p.appService("size: 2")
	p.status(a, appUnready("PodsNotReady", "1 of 2 pods are ready"))
	p.appDeployment(a, nil)
	foreign := p.appSet("other", workload.AppDeployment(a, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: workload.Labels(a)}, Spec: newPod("", nil, "").Spec,
	}), nil)
	p.appPod("other-a", foreign, outOfMemory)
	checkState(t, p.explain(p.user(viewPermissions()...), app, "web"), explain.Waiting, "")
}

func TestAnInvalidSpecPrecedesTheProblemsOfPods(t *testing.T) {
	p := newNamespace(t)
	a := p.appService("size: 2")
	p.status(a, appUnready("InvalidSpec", "spec.template is not allowed"))
	p.appPod("web-1-a", p.appDeployment(a, nil), outOfMemory)
	x := p.explain(p.user(viewPermissions()...), app, "web")
	checkCause(t, x, "InvalidSpec", explain.Object{Kind: "AppService", Name: "web"}, "spec.template is not allowed")
	if len(x.Others) != 1 || x.Others[0].Reason != "OOMKilled" {
		t.Errorf("got %s", asJSON(t, x.Others))
	}
}

const (
	byCommand = "{size: 2, backup: {exec: {command: [save], container: app}}}"
	byJob     = "{size: 2, backup: {jobTemplate: {spec: {template: {spec: {containers: [{name: save, image: example.com/save:1}]}}}}}}"
)

// deleted creates an AppService whose deletion waits for its backup.
func (p *testNamespace) deleted(spec, status string) *v1alpha1.AppService {
	p.t.Helper()
	a := p.appService(spec, v1alpha1.FinalizerBackup)
	p.delete(a)
	if status != "" {
		p.status(a, status)
	}
	return a
}

func (p *testNamespace) delete(a *v1alpha1.AppService) {
	p.t.Helper()
	if err := p.Client.Delete(p.t.Context(), a); err != nil {
		p.t.Fatal(err)
	}
}

func backupStatus(phase, message string) string {
	return `{"status": {"backup": {"phase": "` + phase + `", "attempts": 2, "startTime": "2026-03-01T09:00:00Z", "message": "` + message + `"}}}`
}

func TestADeletionShowsWhatItWaitsForAndHowToSkipIt(t *testing.T) {
	const release = "  To delete it without a backup: kubectl annotate appservices.bongsu.io web -n "
	for name, tc := range map[string]struct {
		spec, status string
		state        explain.State
		cause        string
		says         []string
	}{
		"not started": {byCommand, "", explain.Stopped, "", []string{
			"web is stopped: it is being deleted and waits for its backup\n", "The deletion waits for the backup by a command in container app, which the operator has not started: check that the operator is running\n" + release,
		}},
		"running": {byJob, backupStatus("Running", ""), explain.Stopped, "", []string{
			"The deletion waits for the backup by Job web-backup-", ", which is running\n  backup Running, 2 attempts, started ", " ago\n" + release,
		}},
		"failed": {byCommand, backupStatus("Failed", `exit code 1: \u001b[31mno room`), explain.Failing, "BackupFailed", []string{
			"Cause: BackupFailed in AppService web (2 times)\n  the backup failed: exit code 1: [31mno room\n  Advice: fix the problem that makes the command fail",
			"The deletion waits for the backup by a command in container app, which failed\n", ": exit code 1: [31mno room\n" + release,
		}},
		"failed without a pod": {`{size: 2, suspend: true, backup: {exec: {command: [save]}}}`, backupStatus("Failed", "there was no pod"), explain.Failing, "BackupFailed", []string{
			"Advice: the command needs a pod to run in: set spec.suspend to false",
		}},
		"complete": {byCommand, backupStatus("Succeeded", "the command ended"), explain.Stopped, "", []string{
			"web is stopped: it is being deleted\n\nThe deletion waits for the operator, which has no backup left to make: check that the operator is running\n  backup Succeeded, ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newNamespace(t)
			p.deleted(tc.spec, tc.status)
			x := p.explain(p.user(viewPermissions()...), app, "web")
			checkState(t, x, tc.state, tc.cause)
			checkText(t, x, tc.says...)
			if complete := name == "complete"; x.Deletion == nil || complete != (x.Deletion.Release == "") {
				t.Errorf("got %s", asJSON(t, x.Deletion))
			}
		})
	}
}

func TestADeletionThatSkipsItsBackupWaitsForTheOperator(t *testing.T) {
	p := newNamespace(t)
	a := p.appService(byCommand, v1alpha1.FinalizerBackup)
	a.Annotations = map[string]string{v1alpha1.AnnotationAbandonBackup: "true"}
	if err := p.Client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	p.delete(a)
	p.status(a, backupStatus("Failed", "exit code 1"))
	x := p.explain(p.user(viewPermissions()...), app, "web")
	checkState(t, x, explain.Stopped, "")
	checkText(t, x, "The deletion waits for the operator, which skips the backup as requested: check that the operator is running")
}

func TestADeletionWithoutABackupIsNotExplained(t *testing.T) {
	p := newNamespace(t)
	p.delete(p.appService("size: 2", "example.com/theirs"))
	x := p.explain(p.user(viewPermissions()...), app, "web")
	checkState(t, x, explain.Stopped, "")
	if x.Deletion != nil {
		t.Errorf("got %s", asJSON(t, x.Deletion))
	}
}

// failedPod is the status of a Job's pod whose container has ended with an error.
const failedPod = `{"status": {"phase": "Failed", "containerStatuses": [{"name": "app", "image": "example.com/save:1", "imageID": "x", "ready": false, "restartCount": 0,
	"state": {"terminated": {"exitCode": 7, "reason": "Error", "startedAt": "2026-03-01T09:05:00Z", "finishedAt": "2026-03-01T09:05:09Z", "containerID": "containerd://x"}}}]}}`

// backupJob creates the Job of a backup and its failed pod.
func (p *testNamespace) backupJob(a *v1alpha1.AppService, annotations map[string]string) {
	p.t.Helper()
	job, refused := workload.BackupJob(a)
	if len(refused) > 0 {
		p.t.Fatal(refused)
	}
	job.Annotations = annotations
	p.create(job)
	pod := newPod("save", job, "Job")
	pod.OwnerReferences[0].APIVersion = "batch/v1"
	pod.Labels = job.Spec.Template.Labels
	p.create(pod)
	p.bind(pod)
	p.status(pod, failedPod)
}

func TestABackupIsExplainedByItsOwnJob(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		cause       string
		object      explain.Object
		says        string
	}{
		"its own Job":   {map[string]string{v1alpha1.AnnotationOwnerUID: "x"}, "Error", explain.Object{Kind: "Pod", Name: "save"}, "exit code 7"},
		"a foreign Job": {nil, "BackupFailed", explain.Object{Kind: "AppService", Name: "web"}, "the Job failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newNamespace(t)
			p.backupJob(p.deleted(byJob, backupStatus("Failed", "the Job failed")), tc.annotations)
			checkCause(t, p.explain(p.user(viewPermissions()...), app, "web"), tc.cause, tc.object, tc.says)
		})
	}
}

func TestABackupWithAnUnreadableJob(t *testing.T) {
	p := newNamespace(t)
	p.deleted(byJob, backupStatus("Failed", "the Job failed"))
	x := p.explain(p.user(cluster.Rule("bongsu.io", "appservices", "get")), app, "web")
	checkState(t, x, explain.Failing, "BackupFailed")
	checkText(t, x, "could not read jobs: you may not get them", "and delete the Job: the operator runs it again")
}

func TestABackupCommandNeedsOnlyOneReadyPod(t *testing.T) {
	p := newNamespace(t)
	a := p.deleted(byCommand, backupStatus("Running", "there is no pod yet to run the command in"))
	set := p.appDeployment(a, nil)
	p.appPod("web-1-a", set, outOfMemory)
	user := p.user(viewPermissions()...)
	checkCause(t, p.explain(user, app, "web"), "OOMKilled", explain.Object{Kind: "Pod", Name: "web-1-a"}, "ran out of memory")
	p.appPod("web-1-b", set, running)
	checkState(t, p.explain(user, app, "web"), explain.Stopped, "")
}
