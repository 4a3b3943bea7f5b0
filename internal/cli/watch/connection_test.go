package watch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

var (
	pods         = corev1.Resource("pods")
	errForbidden = apierrors.NewForbidden(pods, "", errors.New("no"))
	errDial      = &url.Error{Op: "Get", URL: "https://127.0.0.1/api?watch=true", Err: errors.New("connection refused")}
	errExpired   = apierrors.NewResourceExpired("too old")
	errInternal  = apierrors.NewInternalError(errors.New("etcd"))
)

// recording is a connection that records its output.
type recording struct {
	*connection
	clock *testingclock.FakePassiveClock
	lines []string
	ended error
}

func newRecording() *recording {
	t := &recording{clock: testingclock.NewFakePassiveClock(now)}
	t.connection = &connection{
		config: Config{
			Target: Target{Type: ResourceType{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaced: true}, Selector: labels.Everything()},
			Status: func(line string) { t.lines = append(t.lines, line) },
			Clock:  t.clock,
		},
		end: func(err error) { t.ended = err },
	}
	return t
}

func TestALostConnectionIsReportedOnce(t *testing.T) {
	c := newRecording()
	for _, err := range []error{nil, errDial, errDial, errInternal, nil, nil, errExpired, errDial} {
		c.observe(t.Context(), err)
	}
	want := []string{
		"connection lost, trying again: connection refused", "connected again",
		"connection lost, trying again: connection refused",
	}
	if !slices.Equal(c.lines, want) || c.ended != nil {
		t.Errorf("got %q, %v", c.lines, c.ended)
	}
}

func TestAnEmptyStreamIsALostConnection(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		return true, apiwatch.NewEmptyWatch(), nil
	})
	c := newRecording()
	c.config.Client = client
	if _, err := newSource(c.config, c.connection).WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"connection lost, trying again: the server does not answer"}; !slices.Equal(c.lines, want) {
		t.Errorf("got %q", c.lines)
	}
}

func TestClientErrorsAreNotALostConnection(t *testing.T) {
	c := newRecording()
	c.observe(t.Context(), errExpired)
	c.observe(t.Context(), apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil))
	c.observe(t.Context(), apierrors.NewTooManyRequestsError("later"))
	if len(c.lines) > 0 || c.ended != nil {
		t.Errorf("got %q, %v", c.lines, c.ended)
	}
}

func TestARefusalEndsAWatchThatHasNotWorkedYet(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":    {errForbidden, `you may not watch pods in all namespaces: ask for the permissions "list" and "watch" on "pods" there`},
		"unauthorized": {apierrors.NewUnauthorized("who?"), "does not accept your credentials"},
		"gone":         {apierrors.NewNotFound(pods, ""), "the server no longer has the type pods"},
		"not allowed":  {apierrors.NewMethodNotSupported(pods, "watch"), "does not support watching pods"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRecording()
			c.observe(t.Context(), fmt.Errorf("list: %w", tc.err))
			if c.ended == nil || !strings.Contains(c.ended.Error(), tc.want) || !errors.Is(c.ended, tc.err) {
				t.Errorf("got %v, want %q", c.ended, tc.want)
			}
		})
	}
}

func TestARefusalEndsAWorkingWatchOnlyAfterTheGracePeriod(t *testing.T) {
	c := newRecording()
	c.established()
	after := func(d time.Duration, err error) {
		c.clock.SetTime(c.clock.Now().Add(d))
		c.observe(t.Context(), err)
	}
	after(0, errForbidden)
	after(refusalGrace-time.Second, errForbidden)
	after(0, nil)
	after(refusalGrace, errForbidden)
	if c.ended != nil {
		t.Fatalf("ended by %v", c.ended)
	}
	if after(refusalGrace, errForbidden); !errors.Is(c.ended, errForbidden) {
		t.Errorf("ended by %v", c.ended)
	}
}

func TestTheEndOfTheWatchIsNotALostConnection(t *testing.T) {
	c := newRecording()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.observe(ctx, errDial)
	if len(c.lines) > 0 {
		t.Errorf("got %q", c.lines)
	}
}
