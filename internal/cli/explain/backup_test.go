package explain_test

import (
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/explain"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const (
	byCommand = "{size: 2, backup: {exec: {command: [save], container: app}}}"
	byJob     = "{size: 2, backup: {jobTemplate: {spec: {template: {spec: {containers: [{name: save, image: example.com/save:1}]}}}}}}"
)

// deleted creates an AppService that waits for its backup.
func (p *place) deleted(spec, status string) *v1alpha1.AppService {
	p.t.Helper()
	a := p.appService(spec, v1alpha1.FinalizerBackup)
	p.delete(a)
	if status != "" {
		p.status(a, status)
	}
	return a
}

func (p *place) delete(a *v1alpha1.AppService) {
	p.t.Helper()
	if err := p.Client.Delete(p.t.Context(), a); err != nil {
		p.t.Fatal(err)
	}
}

func backupStatus(phase, message string) string {
	return `{"status": {"backup": {"phase": "` + phase + `", "attempts": 2, "startTime": "2026-03-01T09:00:00Z", "message": "` + message + `"}}}`
}

func TestADeletionSaysWhatItWaitsForAndHowToReleaseIt(t *testing.T) {
	const release = "  To delete it without a backup: kubectl annotate appservices.bongsu.io web -n "
	for name, tc := range map[string]struct {
		spec, status string
		state        explain.State
		cause        string
		says         []string
	}{
		"not begun": {byCommand, "", explain.Stopped, "", []string{
			"web is stopped: it is being deleted, which waits for its backup\n", "The deletion waits for the backup by a command in container app, which the operator has not begun; is it running?\n" + release,
		}},
		"running": {byJob, backupStatus("Running", ""), explain.Stopped, "", []string{
			"The deletion waits for the backup by Job web-backup-", ", which is on its way\n  backup Running, 2 attempts, begun ", " ago\n" + release,
		}},
		"failed": {byCommand, backupStatus("Failed", `exit code 1: \u001b[31mno room`), explain.Failing, "BackupFailed", []string{
			"Cause: BackupFailed in AppService web (2 times)\n  the backup failed: exit code 1: [31mno room\n  What to do: put right what keeps the command from ending well",
			"The deletion waits for the backup by a command in container app, which failed\n", ": exit code 1: [31mno room\n" + release,
		}},
		"failed for want of a pod": {`{size: 2, suspend: true, backup: {exec: {command: [save]}}}`, backupStatus("Failed", "there was no pod"), explain.Failing, "BackupFailed", []string{
			"What to do: the command needs a pod to run in: set spec.suspend to false",
		}},
		"over": {byCommand, backupStatus("Succeeded", "the command ended"), explain.Stopped, "", []string{
			"web is stopped: it is being deleted\n\nThe deletion waits for the operator, which has no backup to make any more; is it running?\n  backup Succeeded, ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.deleted(tc.spec, tc.status)
			x := p.explain(p.user(everything()...), app, "web")
			checkState(t, x, tc.state, tc.cause)
			checkText(t, x, tc.says...)
			if over := name == "over"; x.Deletion == nil || over != (x.Deletion.Release == "") {
				t.Errorf("got %s", asJSON(t, x.Deletion))
			}
		})
	}
}

func TestADeletionThatIsReleasedWaitsForTheOperator(t *testing.T) {
	p := newPlace(t)
	a := p.appService(byCommand, v1alpha1.FinalizerBackup)
	a.Annotations = map[string]string{v1alpha1.AnnotationAbandonBackup: "true"}
	if err := p.Client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	p.delete(a)
	p.status(a, backupStatus("Failed", "exit code 1"))
	x := p.explain(p.user(everything()...), app, "web")
	checkState(t, x, explain.Stopped, "")
	checkText(t, x, "The deletion waits for the operator, which is told to do without the backup; is it running?")
}

func TestADeletionWithoutABackupIsNotHeld(t *testing.T) {
	p := newPlace(t)
	p.delete(p.appService("size: 2", "example.com/theirs"))
	x := p.explain(p.user(everything()...), app, "web")
	checkState(t, x, explain.Stopped, "")
	if x.Deletion != nil {
		t.Errorf("got %s", asJSON(t, x.Deletion))
	}
}

// failedPod is the status of a Job's pod whose container has ended with an error.
const failedPod = `{"status": {"phase": "Failed", "containerStatuses": [{"name": "app", "image": "example.com/save:1", "imageID": "x", "ready": false, "restartCount": 0,
	"state": {"terminated": {"exitCode": 7, "reason": "Error", "startedAt": "2026-03-01T09:05:00Z", "finishedAt": "2026-03-01T09:05:09Z", "containerID": "containerd://x"}}}]}}`

// backupJob creates the Job of a backup, and its pod, which has failed.
func (p *place) backupJob(a *v1alpha1.AppService, annotations map[string]string) {
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

func TestABackupIsExplainedByItsJob(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		cause       string
		object      explain.Object
		says        string
	}{
		"its own":         {map[string]string{v1alpha1.AnnotationOwnerUID: "x"}, "Error", explain.Object{Kind: "Pod", Name: "save"}, "exit code 7"},
		"somebody else's": {nil, "BackupFailed", explain.Object{Kind: "AppService", Name: "web"}, "the Job failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.backupJob(p.deleted(byJob, backupStatus("Failed", "the Job failed")), tc.annotations)
			checkCause(t, p.explain(p.user(everything()...), app, "web"), tc.cause, tc.object, tc.says)
		})
	}
}

func TestABackupWhoseJobMayNotBeRead(t *testing.T) {
	p := newPlace(t)
	p.deleted(byJob, backupStatus("Failed", "the Job failed"))
	x := p.explain(p.user(cluster.Rule("bongsu.io", "appservices", "get")), app, "web")
	checkState(t, x, explain.Failing, "BackupFailed")
	checkText(t, x, "could not read jobs: you may not get them", "and delete the Job: it is run again")
}

func TestACommandThatBacksUpNeedsOnePodAlone(t *testing.T) {
	p := newPlace(t)
	a := p.deleted(byCommand, backupStatus("Running", "there is no pod yet to run the command in"))
	set := p.appDeployment(a, nil)
	p.appPod("web-1-a", set, outOfMemory)
	user := p.user(everything()...)
	checkCause(t, p.explain(user, app, "web"), "OOMKilled", explain.Object{Kind: "Pod", Name: "web-1-a"}, "ran out of memory")
	p.appPod("web-1-b", set, running)
	checkState(t, p.explain(user, app, "web"), explain.Stopped, "")
}
