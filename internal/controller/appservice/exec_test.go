package appservice_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// runs is a health check by a shell's command. On a busy machine, a command can take longer
// than a second.
func runs(command string, failureThreshold int) string {
	return fmt.Sprintf("\nhealthCheck: {exec: {command: [sh, -c, %q]}, periodSeconds: 3, timeoutSeconds: 3, failureThreshold: %d}", command, failureThreshold)
}

// file returns a path at which there is no file yet.
func file(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "file")
}

func (s *scene) touch(path string) {
	s.t.Helper()
	s.g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
}

// lines is how many lines a file has.
func lines(path string) func() int {
	return func() int {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0
		}
		return strings.Count(string(data), "\n")
	}
}

func TestACommandChecksWhetherAPodIsHealthy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	broken := file(t)
	s.create("size: 1" + runs("echo a warning >&2; if test -e "+broken+"; then echo out of disk; exit 3; fi", 2))
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.touch(broken)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.g.Expect(s.now().Status.PodStatuses).To(ConsistOf(HaveField("Message", ContainSubstring("exit code"))))
	s.g.Expect(os.Remove(broken)).To(Succeed())
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckFailed)).Should(Equal(1))
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckRecovered)).Should(Equal(1))
}

func TestACommandThatHangsIsEndedAndDoesNotPileUp(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	begun, ended := file(t), file(t)
	s.create("size: 1" + runs("echo begun >> "+begun+"; sleep 300; echo ended >> "+ended, 1))
	s.createNamed("other", "size: 1"+runs("true", 1))
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.awaitOf("other", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.g.Eventually(lines(begun)).WithTimeout(patience).Should(BeNumerically(">", 3), "it is tried again")
	s.g.Expect(lines(ended)()).To(BeZero())
}

func TestACommandThatWritesMuchOutputIsRead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nhealthCheck: {exec: {command: [sh, -c, 'head -c 20000000 /dev/zero | tr \"\\\\0\" x']}, periodSeconds: 30, timeoutSeconds: 30, failureThreshold: 1}")
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
}

// The administrator must grant the permission. No pod becomes unhealthy because of it, and
// it is reported once.
func TestForbiddenCommandsAreReportedOnce(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, startOwn(t))
	s.forbidExec()
	s.StartOperator(t)
	s.create("size: 3" + runs("true", 1))
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonExecForbidden)
	s.g.Eventually(func() int32 { return s.now().Status.Unknown }).WithTimeout(patience).Should(BeEquivalentTo(3))
	s.g.Eventually(func() []v1alpha1.PodStatus { return s.now().Status.PodStatuses }).WithTimeout(patience).
		Should(HaveEach(HaveField("Reason", v1alpha1.ReasonExecForbidden)))
	s.g.Expect(s.eventCount(v1alpha1.ReasonExecForbidden)()).To(Equal(1))
	s.g.Expect(s.now().Status.Unhealthy).To(BeZero())
	s.await(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// forbidExec takes the right to run commands from the operator. It returns a function that
// grants it again.
func (s *scene) forbidExec() (grant func()) {
	s.t.Helper()
	var role rbacv1.ClusterRole
	s.g.Expect(s.Client.Get(s.t.Context(), client.ObjectKey{Name: "bongsu-appservice-exec"}, &role)).To(Succeed())
	rules := role.Rules
	role.Rules = nil
	s.g.Expect(s.Client.Update(s.t.Context(), &role)).To(Succeed())
	return func() {
		role.Rules = rules
		s.g.Expect(s.Client.Update(s.t.Context(), &role)).To(Succeed())
	}
}

// Users must learn that a backup cannot run before they rely on it, not when a deletion waits.
// A missing permission is no reason to delete an app without its backup.
func TestABackupThatTheOperatorIsNotAllowedToRunIsReportedBeforeTheDeletion(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, startOwn(t))
	grant := s.forbidExec()
	s.StartOperator(t)
	saved := file(t)
	s.create(fmt.Sprintf("size: 1\nbackup: {onFailure: Abandon, exec: {command: [sh, -c, %q]}}", "echo saved >> "+saved))
	c := s.await(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonExecForbidden)
	s.g.Expect(c.Message).To(ContainSubstring("apply the role bongsu-appservice-exec"))
	s.await(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	s.g.Eventually(func() v1alpha1.Summary { return s.now().Status.Summary }).WithTimeout(patience).
		Should(Equal(v1alpha1.Summary{State: v1alpha1.StateDegraded, Reason: v1alpha1.ReasonExecForbidden}))
	s.g.Eventually(s.eventCount(v1alpha1.ReasonExecForbidden)).Should(Equal(1))

	s.remove()
	s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionFalse, v1alpha1.ReasonExecForbidden)
	c = s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonExecForbidden)
	s.g.Expect(c.Message).To(And(ContainSubstring("the deletion waits for the backup"), ContainSubstring("bongsu-appservice-exec")))
	s.g.Expect(s.now().Status.Backup.Attempts).To(BeZero(), "no attempt was made that could be the last")
	s.g.Expect(s.deployment()).NotTo(BeNil())
	grant()
	s.awaitGone()
	s.g.Expect(lines(saved)()).To(Equal(1))
}

// An admission policy can refuse pods/exec although the operator has the permission. A refused
// command is no attempt: the backup is not abandoned as soon as one fails.
func TestABackupThatAnAdmissionPolicyForbidsIsNeverAbandoned(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, startOwn(t))
	s.StartOperator(t)
	s.backedUp("\nbackup: {onFailure: Abandon, exec: {command: ['false']}}")
	allow := s.refuseExec()
	s.remove()
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonExecForbidden)
	s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionFalse, v1alpha1.ReasonExecForbidden)
	s.g.Expect(s.now().Status.Backup.Attempts).To(BeZero())
	allow()
	s.g.Eventually(func() int32 { return s.now().Status.Backup.Attempts }).WithTimeout(patience).Should(BeEquivalentTo(1))
	s.g.Expect(s.now().Status.Backup.Phase).NotTo(Equal(v1alpha1.BackupAbandoned))
	s.g.Expect(s.deployment()).NotTo(BeNil())
}

// refuseExec refuses all commands in pods by an admission policy. It returns a function that
// allows them again.
func (s *scene) refuseExec() (allow func()) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Name: "no-exec-" + s.namespace}
	forbidden := metav1.StatusReasonForbidden
	s.g.Expect(s.Client.Create(s.t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Connect},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/exec"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "false", Reason: &forbidden, Message: "no commands here"}},
	}})).To(Succeed())
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	s.g.Expect(s.Client.Create(s.t.Context(), binding)).To(Succeed())
	api := kubernetes.NewForConfigOrDie(s.RESTConfig()).CoreV1().RESTClient()
	s.g.Eventually(func() error {
		return api.Post().Namespace(s.namespace).Resource("pods").Name(s.pods("web")[0].Name).SubResource("exec").
			Param("command", "true").Do(s.t.Context()).Error()
	}).WithTimeout(patience).Should(MatchError(ContainSubstring("no commands here")))
	return func() { s.g.Expect(s.Client.Delete(s.t.Context(), binding)).To(Succeed()) }
}

func TestABackupByCommandRunsBeforeAnythingIsRemoved(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	saved := file(t)
	s.backedUp(fmt.Sprintf("\nbackup: {exec: {command: [sh, -c, %q]}}", "sleep 2; echo saved >> "+saved))
	pods := names(s.pods("web"))
	s.remove(client.PropagationPolicy(metav1.DeletePropagationForeground))
	s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted)
	s.g.Expect(names(s.pods("web"))).To(ConsistOf(pods))
	s.awaitGone()
	s.g.Expect(lines(saved)()).To(Equal(1))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupSucceeded)()).To(Equal(1))
}

func TestACommandThatFailsIsRunAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ready := file(t)
	s.backedUp(fmt.Sprintf("\nbackup: {exec: {command: [sh, -c, %q]}}", "test -e "+ready))
	s.remove()
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
	s.g.Expect(s.deployment()).NotTo(BeNil())
	s.touch(ready)
	s.awaitGone()
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupFailed)()).To(Equal(1))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupSucceeded)()).To(Equal(1))
}

func TestACommandThatFailsThreeTimesIsAbandonedIfTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	tried := file(t)
	s.backedUp(fmt.Sprintf("\nbackup: {onFailure: Abandon, exec: {command: [sh, -c, %q]}}", "echo tried >> "+tried+"; exit 1"))
	s.remove()
	s.awaitGone()
	s.g.Expect(lines(tried)()).To(Equal(3))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupAbandoned)()).To(Equal(1))
	s.g.Expect(s.isGone(&appsv1.Deployment{}, "web")()).To(BeTrue())
}

// unreached answers the first n requests to run a command as the API server does if it does not
// reach the kubelet.
type unreached struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (u unreached) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/exec") || u.n.Add(-1) < 0 {
		return u.next.RoundTrip(req)
	}
	return nil, &httpstream.UpgradeFailureError{Cause: &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadGateway, Message: "error dialing backend: connection refused",
	}}}
}

func TestABackupIsNotAbandonedWhileItsPodCannotBeReached(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, cluster.Borrow(t))
	var refused atomic.Int64
	refused.Store(8) // two for each run, and three failures would be the end
	s.StartOperatorThrough(t, func(next http.RoundTripper) http.RoundTripper { return unreached{next, &refused} })
	saved := file(t)
	s.backedUp(fmt.Sprintf("\nbackup: {onFailure: Abandon, exec: {command: [sh, -c, %q]}}", "echo saved >> "+saved))
	s.remove()
	c := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
	s.g.Expect(c.Message).To(ContainSubstring("connection refused"))
	s.awaitGone()
	s.g.Expect(lines(saved)()).To(Equal(1))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupAbandoned)()).To(Equal(0))
}

// The operator was down, and the pods are just starting, for example after a loss of power.
func TestABackupWaitsForAPodAlthoughTheOperatorWasDown(t *testing.T) {
	t.Parallel()
	const limit = 30
	s := sceneIn(t, cluster.Borrow(t))
	operator, saved := s.StartOperator(t), file(t)
	s.create("size: 1\n" + byHand + fmt.Sprintf("backup: {onFailure: Abandon, deadlineSeconds: %d, exec: {command: [sh, -c, %q]}}", limit, "echo saved >> "+saved))
	pod := s.podsWithNodes(1)[0]
	s.kubelet.Running(t, pod, true)
	s.awaitReady()
	s.g.Expect(operator.Stop()).To(Succeed())
	s.kubelet.Waiting(t, pod, "ContainerCreating", "")
	s.remove()
	time.Sleep((limit + 2) * time.Second)
	s.StartOperator(t)
	s.await(v1alpha1.ConditionBackupSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted)
	s.kubelet.Running(t, s.podsWithNodes(1)[0], true)
	s.awaitGone()
	s.g.Expect(lines(saved)()).To(Equal(1))
	s.g.Expect(s.eventCount(v1alpha1.ReasonBackupSucceeded)()).To(Equal(1))
}

// A command runs at least once: again, if the operator ended before it was seen to.
func TestATakeoverRunsTheCommandAgain(t *testing.T) {
	t.Parallel()
	s := sceneIn(t, cluster.Borrow(t))
	operator := s.StartOperator(t)
	tried, ready := file(t), file(t)
	s.backedUp(fmt.Sprintf("\nbackup: {exec: {command: [sh, -c, %q]}}", "echo tried >> "+tried+"; until test -e "+ready+"; do sleep 1; done"))
	s.remove()
	s.g.Eventually(lines(tried)).WithTimeout(patience).Should(Equal(1))
	s.g.Expect(operator.Stop()).To(Succeed())
	s.g.Expect(s.deployment()).NotTo(BeNil())
	s.StartOperator(t)
	s.g.Eventually(lines(tried)).WithTimeout(patience).Should(Equal(2))
	s.touch(ready)
	s.awaitGone()
}
