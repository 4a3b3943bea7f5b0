package appservice_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// Administrators can install AppService without the permissions to run commands in pods and to
// reach them through the API server. The operator has only the roles of its features here, so a
// request without a permission would be refused.
func TestAnAppThatNeedsAFeatureThatIsNotInstalledSaysSo(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	s := sceneIn(t, startOwn(t))
	operator, user := s.StartOperatorFor(t, []feature.Feature{feature.AppService})
	const instead = ", which is off: %s, or ask an administrator to install again with the same values and --set 'controllers={appservice,%s}'"
	noExec := "spec.healthCheck.exec needs the feature appservice-exec" + fmt.Sprintf(instead, "use httpGet", "appservice-exec")
	noProxy := "spec.healthCheck.transport: APIServer needs the feature appservice-proxy" + fmt.Sprintf(instead, "use PodIP", "appservice-proxy")
	noBackup := "spec.backup.exec needs the feature appservice-exec" + fmt.Sprintf(instead, "use jobTemplate", "appservice-exec")
	for name, tc := range map[string]struct{ spec, healthy, degraded string }{
		"exec":   {"size: 1" + runs("true", 1), noExec, noExec},
		"proxy":  {"size: 1\nhealthCheck: {httpGet: {port: 80}, transport: APIServer, periodSeconds: 1}", noProxy, noProxy},
		"backup": {"size: 1\nbackup: {exec: {command: [\"true\"]}}", "", noBackup},
		"both":   {"size: 1\nbackup: {exec: {command: [\"true\"]}}" + runs("true", 1), noExec, noExec + "; " + noBackup},
	} {
		s.createNamed(name, tc.spec)
		s.g.Expect(s.awaitOf(name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonFeatureDisabled).Message).To(Equal(tc.degraded))
		s.awaitOf(name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
		s.g.Eventually(func() v1alpha1.Summary { return s.nowOf(name).Status.Summary }).WithTimeout(patience).
			Should(Equal(v1alpha1.Summary{State: v1alpha1.StateDegraded, Reason: v1alpha1.ReasonFeatureDisabled}), name)
		if tc.healthy != "" {
			c := s.awaitOf(name, v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonFeatureDisabled)
			s.g.Expect(c.Message).To(Equal(tc.healthy))
		}
	}
	s.g.Expect(s.eventCount(v1alpha1.ReasonFeatureDisabled)()).To(Equal(4), "one for each app")

	s.createNamed("web", "size: 1\nbackup: {onFailure: Abandon, exec: {command: [\"true\"]}}")
	s.awaitReady()
	s.remove()
	c := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
	s.g.Expect(c.Message).To(ContainSubstring(noBackup))
	s.g.Expect(s.deployment()).NotTo(BeNil(), "the deletion waits, also with onFailure: Abandon")

	expectNoneDenied := func(user string) {
		requests := audit.Requests(t, s.AuditLog(), user)
		s.g.Expect(requests).NotTo(BeEmpty())
		s.g.Expect(audit.Denied(requests)).To(BeEmpty(), "the operator tries nothing that it is not allowed to do")
	}
	expectNoneDenied(user)

	s.g.Expect(operator.Stop()).To(Succeed())
	_, user = s.StartOperatorFor(t, []feature.Feature{feature.AppService, feature.AppServiceExec})
	s.awaitGone()
	for _, name := range []string{"exec", "both"} {
		s.awaitOf(name, v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
		s.awaitOf(name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonNotDegraded)
	}
	s.awaitOf("proxy", v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonFeatureDisabled)
	expectNoneDenied(user)
}
