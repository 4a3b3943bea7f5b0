package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// Expressions of an attacker. The operator refuses the first one. It would take half a
// minute for each Event. The second one is as expensive as an expression can be, and is
// evaluated until the namespace is over budget.
var (
	refusedExpression   = "event.note.matches('(" + strings.Repeat("(.?){1000}|", 180) + "x)z$')"
	expensiveExpression = "event.note.matches('(?:.?){450}z$')"
)

// noise is how much a median delay varies on a busy machine.
const noise = 50 * time.Millisecond

// TestRegularExpressionsDelayNoVictim compares how long the alarm of another namespace takes
// during a flood of Events, without and with the expensive alarms that match this flood.
func TestRegularExpressionsDelayNoVictim(t *testing.T) {
	s := newFixture(t, cluster.Shared(t))
	attacker := s.Namespace(t, nil)
	s.tenant(attacker)
	victim := s.tenant(s.namespace)
	newManager(s, "--allowed-receiver-addresses", "127.0.0.0/8").startReady()
	s.attack(attacker, "warm-up", 10)
	s.delays(victim, "warm-up", 5)

	without := s.delaysDuringAttack(victim, attacker, "without")
	for i := range 20 {
		expression := refusedExpression
		if i%2 == 0 {
			expression = expensiveExpression
		}
		s.create(attackingAlarm(attacker, i, expression))
	}
	for i := range 20 {
		if i%2 == 0 {
			s.awaitCondition(attacker, i, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
		} else {
			s.awaitCondition(attacker, i, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidExpression)
		}
	}
	with := s.delaysDuringAttack(victim, attacker, "with")
	for i := 0; i < 20; i += 2 {
		s.awaitCondition(attacker, i, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonOverBudget)
	}

	before, after := median(without), median(with)
	t.Attr("summary", fmt.Sprintf("median delay %v without and %v with the expensive alarms, longest %v and %v",
		before, after, slices.Max(without), slices.Max(with)))
	if after > 2*before+noise {
		t.Errorf("the median delay of the victim is %v with the expensive alarms, want at most twice that without: %v", after, before)
	}
}

func attackingAlarm(namespace string, i int, expression string) *v1alpha1.Alarm {
	return &v1alpha1.Alarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("attack-%d", i)},
		Spec: v1alpha1.NamespacedAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: expression}}},
			Receivers: []v1alpha1.ReceiverReference{{Name: "tenant"}},
		},
	}
}

// awaitCondition waits until an attacking alarm has the condition.
func (s *fixture) awaitCondition(namespace string, i int, condition string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func(g gomega.Gomega) {
		a := attackingAlarm(namespace, i, "")
		g.Expect(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(a), a)).To(gomega.Succeed())
		c := meta.FindStatusCondition(a.Status.Conditions, condition)
		g.Expect(c).NotTo(gomega.BeNil())
		g.Expect(c.Status).To(gomega.Equal(status), c.Message)
		if reason != "" {
			g.Expect(c.Reason).To(gomega.Equal(reason))
		}
	}).WithTimeout(patience).Should(gomega.Succeed())
}

// attack creates n Events that no alarm names, fifty in a second.
func (s *fixture) attack(namespace, prefix string, n int) {
	limiter := rate.NewLimiter(50, 1)
	var group errgroup.Group
	for i := range n {
		group.Go(func() error {
			if err := limiter.Wait(s.t.Context()); err != nil {
				return err
			}
			event := newEvent(namespace, fmt.Sprintf("attack-%s-%d", prefix, i))
			event.Reason, event.Note = "Attack", strings.Repeat("a", 1024)
			return s.Client.Create(s.t.Context(), event)
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Error(err)
	}
}

// delaysDuringAttack returns the delays of a receiver while the attacker creates Events.
func (s *fixture) delaysDuringAttack(victim *receiver, attacker, name string) []time.Duration {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.attack(attacker, name, 600)
	}()
	delays := s.delays(victim, name, 100)
	<-ended
	return delays
}

// delays creates n Events, ten in a second. It returns how long each took from its creation
// to the receiver.
func (s *fixture) delays(r *receiver, prefix string, n int) []time.Duration {
	s.t.Helper()
	limiter := rate.NewLimiter(10, 1)
	begun := map[string]time.Time{}
	var names []string
	for i := range n {
		if err := limiter.Wait(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		name := fmt.Sprintf("victim-%s-%d", prefix, i)
		begun[name] = time.Now()
		names = append(names, name)
		if err := s.Client.Create(s.t.Context(), newEvent(s.namespace, name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.awaitAll(r, names)
	receipts := r.receipts()
	var delays []time.Duration
	for _, name := range names {
		delays = append(delays, receipts[name][0].Sub(begun[name]))
	}
	return delays
}

func median(delays []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(delays))
	return sorted[len(sorted)/2]
}
