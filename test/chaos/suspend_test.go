package chaos

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestWhatHappensWhileAnAlarmIsSuspendedIsNotSentAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		seen   bool
		resume string
	}{
		"suspended and resumed while the operator is down": {seen: false, resume: "false"},
		"resumed while the operator is down":               {seen: true, resume: "null"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, cluster.Shared(t), "hook")
			hook := s.receivers[0]
			m := newManager(s)
			m.startReady()
			expected := s.burst(10)
			s.awaitAll(hook, expected)
			if tc.seen {
				s.suspend("true")
				s.awaitState(v1alpha1.StateSuspended)
			}
			m.kill()
			if !tc.seen {
				s.suspend("true")
			}
			s.burst(20)
			time.Sleep(2 * time.Second) // the times of changes are whole seconds
			s.suspend(tc.resume)
			expected = append(expected, s.burst(10)...)
			m.start()
			s.awaitAll(hook, expected)
			s.summarize(len(m.killed), expected) // nothing else was sent
		})
	}
}

// suspend sets spec.suspend of the alarm.
func (s *fixture) suspend(value string) {
	s.t.Helper()
	alarm := &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":`+value+`}}`))
	if err := s.Client.Patch(s.t.Context(), alarm, patch, client.FieldOwner("kubectl-patch")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) awaitState(state v1alpha1.State) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (v1alpha1.State, error) {
		var alarm v1alpha1.ClusterAlarm
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: s.namespace}, &alarm)
		return alarm.Status.State, err
	}).WithTimeout(patience).Should(gomega.Equal(state))
}
