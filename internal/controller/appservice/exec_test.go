package appservice_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// runs is a health check by a shell's command, every second.
func runs(command string, failureThreshold int) string {
	return fmt.Sprintf("\nhealthCheck: {exec: {command: [sh, -c, %q]}, periodSeconds: 1, failureThreshold: %d}", command, failureThreshold)
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

// forbidExec takes the right to run commands from the operator.
func (s *scene) forbidExec() {
	s.t.Helper()
	var role rbacv1.ClusterRole
	s.g.Expect(s.Client.Get(s.t.Context(), client.ObjectKey{Name: "bongsu-appservice"}, &role)).To(Succeed())
	for i := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(r string) bool { return r == "pods/exec" })
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 })
	s.g.Expect(s.Client.Update(s.t.Context(), &role)).To(Succeed())
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

// A command runs at least once: again, if the operator ended before it was seen to.
func TestATakeoverRunsTheCommandAgain(t *testing.T) {
	t.Parallel()
	s := sceneIn(t, startOwn(t))
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
