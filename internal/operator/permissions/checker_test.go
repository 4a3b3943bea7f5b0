package permissions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// apiServer grants verbs on pods, but those that are refused.
type apiServer struct {
	mu      sync.Mutex
	refuses map[string]bool
	fails   error
	takes   time.Duration
	asked   []string
	// now and most are reviews in flight.
	now, most int
}

func (s *apiServer) Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	var late error
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		late = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	verb := review.Spec.ResourceAttributes.Verb
	s.asked = append(s.asked, verb)
	answer := review.DeepCopy()
	answer.Status.Allowed = !s.refuses[verb]
	return answer, errors.Join(late, s.fails)
}

// change changes what the API server says, and forgets what it was asked.
func (s *apiServer) change(fails error, refuses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.refuses, s.asked = fails, map[string]bool{}, nil
	for _, verb := range refuses {
		s.refuses[verb] = true
	}
}

// wasAsked returns for what the API server was asked since it was changed.
func (s *apiServer) wasAsked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, " ")
}

func (s *apiServer) mostAtOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// scene is a Checker that runs, in a bubble of time.
type scene struct {
	*Checker
	server *apiServer
	ended  chan struct{}
	stop   context.CancelFunc

	mu  sync.Mutex
	log []string
}

func pods(verbs ...string) (permissions []Permission) {
	for _, verb := range verbs {
		permissions = append(permissions, Permission{Role: "ClusterRole bongsu", Resource: "pods", Verb: verb})
	}
	return permissions
}

func newScene(t *testing.T, server *apiServer, verbs ...string) *scene {
	s := &scene{server: server, ended: make(chan struct{})}
	log := funcr.New(func(_, line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, line)
	}, funcr.Options{})
	s.Checker = NewChecker(server, pods(verbs...), clock.RealClock{}, log)
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(stop)
	go func() {
		defer close(s.ended)
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return s
}

// says is what readiness says.
func (s *scene) says() string {
	if err := s.Healthy(nil); err != nil {
		return err.Error()
	}
	return ""
}

// logged returns the lines of the log.
func (s *scene) logged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *scene) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func TestWhoHasAllPermissionsIsAskedOnceForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{takes: time.Second}
		s := newScene(t, server, "get", "list", "watch", "create", "update", "delete")
		if got, want := s.says(), "the permissions are not checked yet"; got != want {
			t.Errorf("before the answer: %q, want %q", got, want)
		}
		time.Sleep(24 * time.Hour)
		if got := s.says(); got != "" || !s.hasEnded() || len(s.logged()) > 0 {
			t.Errorf("readiness says %q, ended: %v, log: %v", got, s.hasEnded(), s.logged())
		}
		if asked := len(strings.Fields(server.wasAsked())); asked != 6 || server.mostAtOnce() != atOnce {
			t.Errorf("%d reviews, %d at once", asked, server.mostAtOnce())
		}
	})
}

func TestWhatIsMissingIsNamedAndAskedForUntilItIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		server.change(nil, "create", "patch")
		s := newScene(t, server, "get", "create", "patch")
		if got, want := s.says(), "cannot create, patch pods: add it to ClusterRole bongsu"; got != want {
			t.Errorf("readiness says %q, want %q", got, want)
		}
		server.change(nil, "create")
		time.Sleep(6 * time.Second)
		if got, want := s.says(), "cannot create pods: add it to ClusterRole bongsu"; got != want {
			t.Errorf("readiness says %q, want %q", got, want)
		}
		if got := server.wasAsked(); got != "create patch" && got != "patch create" {
			t.Errorf("asked again for %q", got)
		}
		server.change(nil)
		time.Sleep(6 * time.Second) // the grant reset the backoff
		if got := s.says(); got != "" || !s.hasEnded() {
			t.Errorf("readiness says %q, ended: %v", got, s.hasEnded())
		}
		want := []string{
			`"msg"="The operator lacks a permission: it cannot create, patch pods: add it to ClusterRole bongsu" "error"=null`,
			`"level"=0 "msg"="A missing permission was granted" "verb"="patch" "resource"="pods" "group"=""`,
			`"level"=0 "msg"="A missing permission was granted" "verb"="create" "resource"="pods" "group"=""`,
		}
		if diff := cmp.Diff(want, s.logged()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatStaysMissingIsAskedForEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		server.change(nil, "create")
		s := newScene(t, server, "get", "create")
		time.Sleep(time.Hour)
		server.change(nil, "create")
		time.Sleep(5 * time.Minute)
		if got := server.wasAsked(); got != "create" {
			t.Errorf("asked for %q within five minutes", got)
		}
		if log := s.logged(); len(log) != 1 {
			t.Errorf("it was logged more than once: %v", log)
		}
		s.stop()
		synctest.Wait()
		if !s.hasEnded() {
			t.Error("it does not end")
		}
	})
}

func TestWhatCannotBeAskedIsNeitherThereNorMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		server.change(errors.New("the server is down"))
		s := newScene(t, server, "get", "create")
		if got, want := s.says(), "2 permissions are not checked yet: "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "the server is down") {
			t.Errorf("readiness says %q, want %q and why", got, want)
		}
		server.change(nil, "create")
		time.Sleep(6 * time.Second)
		const missing = "cannot create pods: add it to ClusterRole bongsu"
		if got := s.says(); got != missing {
			t.Errorf("readiness says %q, want %q", got, missing)
		}
		server.change(errors.New("the server is down"))
		time.Sleep(time.Minute)
		if got := s.says(); got != missing || server.wasAsked() == "" {
			t.Errorf("after it could not be asked again: readiness says %q, want %q", got, missing)
		}
		server.change(nil)
		time.Sleep(6 * time.Minute)
		if got := s.says(); got != "" {
			t.Errorf("readiness says %q", got)
		}
	})
}

func TestAServerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{takes: time.Hour}
		s := newScene(t, server, "get", "list", "watch", "create", "update", "delete")
		time.Sleep(reviewTimeout + time.Second)
		if got, want := s.says(), "6 permissions are not checked yet"; !strings.HasPrefix(got, want) {
			t.Errorf("readiness says %q, want %q", got, want)
		}
		s.stop()
		synctest.Wait()
		if !s.hasEnded() {
			t.Error("it does not end")
		}
	})
}

func TestAnOperatorThatMayNotAskForItsPermissionsIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		resource := schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}
		server.change(fmt.Errorf("wrapped: %w", apierrors.NewForbidden(resource, "", errors.New("no"))))
		s := newScene(t, server, "get", "create")
		server.change(nil, "create")
		time.Sleep(time.Hour)
		if got := s.says(); got != "" || !s.hasEnded() || server.wasAsked() != "" {
			t.Errorf("readiness says %q, ended: %v, asked again for %q", got, s.hasEnded(), server.wasAsked())
		}
		if log := s.logged(); len(log) != 1 || !strings.Contains(log[0], "permissions are not checked") {
			t.Errorf("the log is %v", log)
		}
	})
}

// reviewer answers by calling a function.
type reviewer func(authorizationv1.SelfSubjectAccessReviewSpec) bool

func (f reviewer) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	return &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: f(review.Spec)}}, nil
}

func TestThatRightIsAskedForAndNoOther(t *testing.T) {
	permission := Permission{Role: "Role bongsu", Namespace: "n", Verb: "create", Group: "g", Resource: "pods", Subresource: "exec", Name: "o"}
	c := NewChecker(reviewer(func(got authorizationv1.SelfSubjectAccessReviewSpec) bool {
		want := authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "n", Verb: "create", Group: "g", Resource: "pods", Subresource: "exec", Name: "o",
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return true
	}), []Permission{permission}, clock.RealClock{}, logr.Discard())
	if err := c.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Healthy(nil); err != nil {
		t.Error(err)
	}
}

func TestWhatIsMissingIsAMetric(t *testing.T) {
	c := NewChecker(nil, nil, clock.RealClock{}, logr.Discard())
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	series := func() []string {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var series []string
		for _, family := range families {
			for _, m := range family.GetMetric() {
				line := family.GetName()
				for _, label := range m.GetLabel() {
					line += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
				}
				series = append(series, fmt.Sprintf("%s: %v", line, m.GetGauge().GetValue()))
			}
		}
		return series
	}
	if got := series(); got != nil {
		t.Errorf("while nothing is missing: %v", got)
	}
	c.state.missing = []Permission{
		{Resource: "secrets", Verb: "get", Name: "x"}, {Resource: "secrets", Verb: "get", Name: "y"},
		{Group: "apps", Resource: "statefulsets", Subresource: "scale", Verb: "update"},
	}
	want := []string{
		"bongsu_permissions_missing group= resource=secrets verb=get: 2",
		"bongsu_permissions_missing group=apps resource=statefulsets/scale verb=update: 1",
	}
	if diff := cmp.Diff(want, series()); diff != "" {
		t.Error(diff)
	}
}
