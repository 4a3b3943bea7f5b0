package appservice_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// restartedOnce is a check whose first failure makes a pod unhealthy. It allows one eviction per
// hour.
var restartedOnce = strings.Replace(fmt.Sprintf(asked, 1), "failureThreshold: 1", "failureThreshold: 1, remedy: Restart, maxRestartsPerHour: 1", 1)

// restarted is an app of so many healthy pods. An unhealthy one is evicted, once an hour.
func (s *scene) restarted(size int, spec string) ([]*corev1.Pod, []*answering) {
	s.t.Helper()
	s.create(fmt.Sprintf("size: %d\n%s%s", size, spec, restartedOnce))
	return s.healthy(size)
}

func (a *answering) fail() { a.code.Store(http.StatusInternalServerError) }

// awaitBudget waits until the API server counts so many healthy pods for the app's own budget.
func (s *scene) awaitBudget(healthy int32) {
	s.t.Helper()
	s.g.Eventually(func() int32 {
		if b := s.budget(); b != nil {
			return b.Status.CurrentHealthy
		}
		return 0
	}).WithTimeout(patience).Should(Equal(healthy))
}

// awaitEvicted waits until a pod is evicted, and the status shows its successor.
func (s *scene) awaitEvicted(pod *corev1.Pod) {
	s.t.Helper()
	s.g.Eventually(func() []types.UID {
		var uids []types.UID
		for _, p := range s.pods("web") {
			uids = append(uids, p.UID)
		}
		return uids
	}).WithTimeout(patience).ShouldNot(ContainElement(pod.UID))
	s.g.Eventually(func() []string { return s.now().Status.Nodes }).WithTimeout(patience).
		Should(And(HaveLen(int(s.now().Spec.Size)), Not(ContainElement(pod.Name))))
}

// expectEvictedOnce checks that one eviction counts, and nothing blocks it any more.
func (s *scene) expectEvictedOnce() {
	s.t.Helper()
	s.g.Eventually(func() metav1.Condition { return conditionOf(s.now(), v1alpha1.ConditionEvictionBlocked) }).
		WithTimeout(patience).Should(BeZero())
	s.g.Expect(s.now().Status.RestartTimes).To(HaveLen(1))
	s.g.Eventually(s.eventCount(v1alpha1.ReasonRestartedUnhealthyPod)).WithTimeout(patience).Should(Equal(1))
}

func (s *scene) awaitBlocked() metav1.Condition {
	s.t.Helper()
	return s.await(v1alpha1.ConditionEvictionBlocked, metav1.ConditionTrue, v1alpha1.ReasonBlockedByDisruptionBudget)
}

func TestAnEvictionThatABudgetRefusesIsReportedAndDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods, servers := s.restarted(2, "disruptionBudget: {minAvailable: 2}")
	s.awaitBudget(2)
	servers[0].fail()
	s.g.Expect(s.awaitBlocked().Message).To(And(
		ContainSubstring("PodDisruptionBudget web does not allow the eviction of the unhealthy Pod "+pods[0].Name),
		ContainSubstring("it needs 2 healthy pods and has 2 currently"), ContainSubstring("change spec.disruptionBudget"),
	))
	s.g.Eventually(s.describer()).WithTimeout(patience).Should(describesFailure(v1alpha1.ReasonBlockedByDisruptionBudget, "PodDisruptionBudget web"))
	s.g.Expect(s.now().Status.RestartTimes).To(BeEmpty())
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	s.awaitEvicted(pods[0])
	s.expectEvictedOnce()
	s.g.Expect(s.eventCount(v1alpha1.ReasonBlockedByDisruptionBudget)()).To(Equal(1))
}

func TestSeveralBudgetsThatSelectAPodAreNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods, servers := s.restarted(1, "")
	budgetOfOthers := func(name string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelAppService: "web"}},
			},
		}
	}
	team := budgetOfOthers("team")
	s.g.Expect(s.Client.Create(t.Context(), team)).To(Succeed())
	s.g.Expect(s.Client.Create(t.Context(), budgetOfOthers("all"))).To(Succeed())
	servers[0].fail()
	s.g.Expect(s.awaitBlocked().Message).To(ContainSubstring("the PodDisruptionBudgets all, team select it"))
	s.g.Expect(s.now().Status.RestartTimes).To(BeEmpty())
	s.g.Expect(s.Client.Delete(t.Context(), team)).To(Succeed())
	s.awaitEvicted(pods[0])
	s.expectEvictedOnce()
}

func TestABlockedEvictionEndsWhenThePodIsHealthy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods, servers := s.restarted(2, "disruptionBudget: {minAvailable: 2}")
	s.awaitBudget(2)
	servers[0].fail()
	s.awaitBlocked()
	servers[0].code.Store(http.StatusOK)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.g.Expect(conditionOf(s.now(), v1alpha1.ConditionEvictionBlocked)).To(BeZero())
	s.g.Expect(s.now().Status.RestartTimes).To(BeEmpty())
	s.g.Expect(names(s.pods("web"))).To(ConsistOf(names(pods)))
}

// evictionAnswers is a transport that answers evictions, by namespace.
type evictionAnswers struct {
	mu sync.Mutex
	// dryRuns and evictions are the answers to the first requests. The API server gets the others.
	dryRuns, evictions map[string][]answer
	// sent counts the dry runs.
	sent map[string]int
}

// answer replaces the answer of the API server, which send returns.
type answer func(send func() (*http.Response, error)) (*http.Response, error)

func newEvictionAnswers() *evictionAnswers {
	return &evictionAnswers{dryRuns: map[string][]answer{}, evictions: map[string][]answer{}, sent: map[string]int{}}
}

func (e *evictionAnswers) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		send := func() (*http.Response, error) { return next.RoundTrip(r) }
		if !strings.HasSuffix(r.URL.Path, "/eviction") {
			return send()
		}
		return e.next(strings.Split(r.URL.Path, "/")[4], r.URL.Query().Has("dryRun"))(send)
	})
}

// next returns the next answer to a namespace.
func (e *evictionAnswers) next(namespace string, dryRun bool) answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.evictions
	if dryRun {
		e.sent[namespace]++
		all = e.dryRuns
	}
	if left := all[namespace]; len(left) > 0 {
		all[namespace] = left[1:]
		return left[0]
	}
	return func(send func() (*http.Response, error)) (*http.Response, error) { return send() }
}

func (e *evictionAnswers) set(namespace string, dryRuns, evictions []answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dryRuns[namespace], e.evictions[namespace] = dryRuns, evictions
}

func (e *evictionAnswers) countDryRuns(namespace string) func() int {
	return func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.sent[namespace]
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refused is an answer of the API server.
func refused(err *apierrors.StatusError, causes ...metav1.StatusCause) answer {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Details.Causes = causes
	return func(func() (*http.Response, error)) (*http.Response, error) {
		body, err := json.Marshal(status)
		return &http.Response{
			StatusCode: int(status.Code), Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, err
	}
}

// lost sends the request and loses the answer.
func lost(send func() (*http.Response, error)) (*http.Response, error) {
	answer, err := send()
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(errors.New("connection reset by peer"), answer.Body.Close())
}

// Only evictions that happened, or may have, count. One per hour is allowed here.
func TestEvictionsThatDidNotHappenDoNotCount(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	answers := newEvictionAnswers()
	c.StartOperatorThrough(t, answers.wrap)

	tooMany := refused(apierrors.NewTooManyRequests("too many requests, please try again later", 0))
	byBudget := refused(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0),
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget others needs 1 healthy pods and has 1 currently"})
	forbidden := refused(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no permission")))
	for name, tc := range map[string]struct {
		dryRuns, evictions []answer
		blocked, restarted int // Warnings
	}{
		"too many requests of all clients":   {[]answer{tooMany, tooMany}, nil, 0, 1},
		"a missing permission":               {[]answer{forbidden, forbidden}, nil, 0, 1},
		"another eviction was first":         {nil, []answer{byBudget}, 1, 1},
		"refused by something else":          {nil, []answer{forbidden}, 0, 1},
		"the answer is lost":                 {nil, []answer{lost}, 0, 0},
		"the answer to the dry run was lost": {[]answer{lost}, nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sceneIn(t, c)
			answers.set(s.namespace, tc.dryRuns, tc.evictions)
			pods, servers := s.restarted(1, "")
			servers[0].fail()
			if tc.blocked > 0 {
				s.g.Expect(s.awaitBlocked().Message).To(ContainSubstring("PodDisruptionBudget others"))
				s.g.Expect(s.now().Status.RestartTimes).To(BeEmpty())
			}
			s.awaitEvicted(pods[0])
			s.g.Expect(s.now().Status.RestartTimes).To(HaveLen(1))
			s.g.Eventually(s.eventCount(v1alpha1.ReasonRestartedUnhealthyPod)).Should(Equal(tc.restarted))
			s.g.Expect(s.eventCount(v1alpha1.ReasonBlockedByDisruptionBudget)()).To(Equal(tc.blocked))
		})
	}
}

// A blocked eviction is tried again and again, also by the next operator, and is reported once.
func TestABlockedEvictionIsReportedOnce(t *testing.T) {
	size.NotInTest(t, "it starts operators of its own, and TestATakeoverRepeatsNoEvent does so too")
	t.Parallel()
	c := cluster.Borrow(t)
	answers := newEvictionAnswers()
	operator := c.StartOperatorThrough(t, answers.wrap)
	s := sceneIn(t, c)
	pods, servers := s.restarted(2, "disruptionBudget: {minAvailable: 2}")
	s.awaitBudget(2)
	servers[1].fail()
	before := s.awaitBlocked()
	repeated := func() {
		t.Helper()
		sent := answers.countDryRuns(s.namespace)
		s.g.Eventually(sent).WithTimeout(patience).Should(BeNumerically(">", sent()+1))
		s.g.Expect(s.awaitBlocked()).To(Equal(before))
		s.g.Expect(s.now().Status.RestartTimes).To(BeEmpty())
		s.g.Expect(s.eventCount(v1alpha1.ReasonBlockedByDisruptionBudget)()).To(Equal(1))
	}
	repeated()
	s.g.Expect(operator.Stop()).To(Succeed())
	c.StartOperatorThrough(t, answers.wrap)
	repeated()
	s.change(func(a *v1alpha1.AppService) { a.Spec.DisruptionBudget = nil })
	s.awaitEvicted(pods[1])
	s.expectEvictedOnce()
}
