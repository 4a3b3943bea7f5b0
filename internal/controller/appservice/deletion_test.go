package appservice_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// byJob is a backup whose pod is the test's.
const byJob = `
ports: [{name: http, containerPort: 8080}]
backup:
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        metadata: {annotations: {bongsu-local/simulate: none}}
        spec: {containers: [{name: save, image: example.org/save}]}
`

// backedUp creates an app with a backup and waits until it runs.
func (s *scene) backedUp(spec string) {
	s.t.Helper()
	s.create("size: 2" + spec)
	s.awaitReady()
	s.g.Expect(s.now().Finalizers).To(ConsistOf(v1alpha1.FinalizerBackup))
}

// job returns the Job of the backup when it is there.
func (s *scene) job() *batchv1.Job {
	s.t.Helper()
	job := &batchv1.Job{}
	name := workload.BackupJobName(s.now())
	s.g.Eventually(func() error { return s.Client.Get(s.t.Context(), s.key(name), job) }).WithTimeout(patience).Should(Succeed())
	return job
}

// end has the Job's pod end in a phase.
func (s *scene) end(job *batchv1.Job, phase corev1.PodPhase) {
	s.t.Helper()
	s.g.Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(s.Client.List(s.t.Context(), &pods, client.InNamespace(s.namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		pod := &pods.Items[0]
		g.Expect(pod.Labels).NotTo(HaveKey(v1alpha1.LabelAppService), "the Service would send it requests")
		pod.Status.Phase = phase
		g.Expect(s.Client.Status().Update(s.t.Context(), pod)).To(Succeed())
	}).WithTimeout(patience).Should(Succeed())
}

func (s *scene) jobs() []batchv1.Job {
	var jobs batchv1.JobList
	s.g.Expect(s.Client.List(s.t.Context(), &jobs, client.InNamespace(s.namespace))).To(Succeed())
	return jobs.Items
}

func (s *scene) awaitGone() {
	s.t.Helper()
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.g.Eventually(s.isGone(&appsv1.Deployment{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.g.Eventually(s.isGone(&corev1.Service{}, "web")).WithTimeout(patience).Should(BeTrue())
}

// In a foreground deletion, the garbage collector deletes owned objects in spite of the
// finalizer.
func TestNothingIsRemovedBeforeTheBackupHasEnded(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.backedUp(byJob)
			pods := names(s.pods("web"))
			s.remove(client.PropagationPolicy(policy))
			job := s.job()
			s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupStarted)
			s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted)
			s.g.Eventually(s.eventCount(v1alpha1.ReasonBackupStarted)).Should(Equal(1))
			s.g.Consistently(func() []string { return names(s.pods("web")) }, "2s").Should(ConsistOf(pods))
			s.end(job, corev1.PodSucceeded)
			s.awaitGone()
			s.g.Expect(s.eventCount(v1alpha1.ReasonBackupSucceeded)()).To(Equal(1))
			s.g.Expect(s.eventCount(v1alpha1.ReasonCleanupComplete)()).To(Equal(1))
			s.g.Expect(s.jobs()).To(HaveLen(1), "it is kept for its logs")
		})
	}
}

func TestAFailedBackupBlocksUntilItIsReleasedOrSucceeds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		act    func(*scene, *batchv1.Job)
		reason string
	}{
		"released": {func(s *scene, _ *batchv1.Job) {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"bongsu.io/abandon-backup": "true"}}}`))
			s.g.Expect(s.Client.Patch(s.t.Context(), s.now(), patch)).To(Succeed())
		}, v1alpha1.ReasonBackupAbandoned},
		"tried again": {func(s *scene, failed *batchv1.Job) {
			s.g.Expect(s.Client.Delete(s.t.Context(), failed, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			s.g.Eventually(func() types.UID { return s.job().UID }).WithTimeout(patience).ShouldNot(Equal(failed.UID))
			s.end(s.job(), corev1.PodSucceeded)
		}, v1alpha1.ReasonBackupSucceeded},
		"not asked for any more": {func(s *scene, _ *batchv1.Job) {
			s.change(func(a *v1alpha1.AppService) { a.Spec.Backup = nil })
		}, v1alpha1.ReasonBackupSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.backedUp(byJob)
			s.remove()
			job := s.job()
			s.end(job, corev1.PodFailed)
			c := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
			s.g.Expect(c.Message).To(ContainSubstring("bongsu.io/abandon-backup=true"))
			s.g.Eventually(s.eventCount(v1alpha1.ReasonBackupFailed)).Should(Equal(1))
			s.g.Expect(s.pods("web")).To(HaveLen(2))
			tc.act(s, job)
			s.awaitGone()
			s.g.Expect(s.eventCount(tc.reason)()).To(Equal(1))
		})
	}
}

func TestAFailedBackupIsAbandonedIfTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.backedUp(byJob + "  onFailure: Abandon\n")
	s.remove()
	s.end(s.job(), corev1.PodFailed)
	s.awaitGone()
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupAbandoned)()).To(Equal(1))
}

// It says nothing about the Job. The data of the app would be lost.
func TestAWebhookThatDoesNotAnswerAbandonsNoBackup(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.backedUp(byJob + "  onFailure: Abandon\n")
	webhook := s.breakWebhook("jobs")
	s.remove()
	s.g.Eventually(func() string {
		if b := s.now().Status.Backup; b != nil {
			return b.Message
		}
		return ""
	}).WithTimeout(patience).Should(ContainSubstring(webhook.Webhooks[0].Name))
	s.g.Consistently(s.eventCount(v1alpha1.ReasonBackupAbandoned), "2s").Should(BeZero())
	s.g.Expect(s.Client.Delete(t.Context(), webhook)).To(Succeed())
	s.end(s.job(), corev1.PodSucceeded)
	s.awaitGone()
}

// breakWebhook installs a webhook for a resource of the namespace that cannot be called.
func (s *scene) breakWebhook(resource string) *admissionv1.ValidatingWebhookConfiguration {
	s.t.Helper()
	w := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "down.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig:      admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}},
		}},
	}
	s.g.Expect(s.Client.Create(s.t.Context(), w)).To(Succeed())
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), w) })
	return w
}

func TestABackupDoesNotDelayTheDeletionOfANamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.backedUp(byJob)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.g.Expect(s.Client.Delete(t.Context(), namespace)).To(Succeed())
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.g.Expect(s.jobs()).To(BeEmpty())
}

func TestRetainedChildrenAreAdoptedByTheNextAppWithTheName(t *testing.T) {
	t.Parallel()
	for name, backup := range map[string]string{"": "", "after a backup": byJob} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create("size: 1\ndeletionPolicy: Retain" + backup)
			s.awaitReady()
			uid := s.deployment().UID
			s.remove()
			if backup != "" {
				s.end(s.job(), corev1.PodSucceeded)
			}
			s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
			s.g.Consistently(func() *appsv1.Deployment { return s.deployment() }, "1s").Should(HaveField("UID", uid))
			s.create("size: 2")
			s.awaitReady()
			s.g.Expect(s.deployment().UID).To(Equal(uid))
			s.g.Expect(metav1.IsControlledBy(s.deployment(), s.now())).To(BeTrue())
			s.remove()
			s.awaitGone()
		})
	}
}

// An AppService that is deleted at once has nothing to back up.
func TestAnAppThatIsBeingDeletedGetsNoFinalizer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	u := cluster.Manifest(t, v1alpha1.KindAppService, s.namespace, "web", "size: 1\nsuspend: true")
	u.SetFinalizers([]string{"example.org/theirs"})
	s.g.Expect(s.Client.Create(t.Context(), u)).To(Succeed())
	s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
	s.remove()
	s.change(func(a *v1alpha1.AppService) { a.Spec.Backup = backupBy("true") })
	s.g.Consistently(func() []string { return s.now().Finalizers }, "2s").Should(ConsistOf("example.org/theirs"))
	s.change(func(a *v1alpha1.AppService) { a.Finalizers = nil })
	s.awaitGone()
}

func backupBy(command ...string) *v1alpha1.Backup {
	return &v1alpha1.Backup{Exec: &v1alpha1.ExecCheck{Command: command}}
}

// The guide shows this for users who have removed the operator first.
func TestWithoutAnOperatorTheFinalizerCanBeRemovedByHand(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	s := sceneIn(t, c)
	operator := c.StartOperator(t)
	s.backedUp(byJob)
	s.g.Expect(operator.Stop()).To(Succeed())
	s.remove()
	all := []string{"get", "list", "watch", "patch", "delete"}
	kubectl := s.Kubectl(t, s.User(t, s.namespace,
		cluster.Rule(v1alpha1.Group, "appservices", all...), cluster.Rule("apps", "deployments", all...), cluster.Rule("", "services", all...)))
	out, err := kubectl("patch", "appservice", "web", "-n", s.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.g.Expect(err).NotTo(HaveOccurred(), "%s", out)
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).Should(BeTrue())
	out, err = kubectl("delete", "deployment,service", "-n", s.namespace, "-l", "bongsu.io/appservice=web")
	s.g.Expect(err).NotTo(HaveOccurred(), "%s", out)
	s.awaitGone()
}

// One who takes over finds the Job that the other made.
func TestATakeoverCreatesNoSecondJob(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	s := sceneIn(t, c)
	operator := c.StartOperator(t)
	s.backedUp(byJob)
	s.remove()
	job := s.job()
	s.g.Expect(operator.Stop()).To(Succeed())
	c.StartOperator(t)
	s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted)
	s.end(job, corev1.PodSucceeded)
	s.awaitGone()
	s.g.Expect(s.jobs()).To(ConsistOf(HaveField("UID", job.UID)))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupStarted)()).To(Equal(1))
}
