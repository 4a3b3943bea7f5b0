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

// tested is a link, and what it tells.
type tested struct {
	*link
	clock *testingclock.FakePassiveClock
	lines []string
	ended error
}

func newTested() *tested {
	t := &tested{clock: testingclock.NewFakePassiveClock(now)}
	t.link = &link{
		config: Config{
			Target: Target{Type: ResourceType{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaced: true}, Selector: labels.Everything()},
			Tell:   func(line string) { t.lines = append(t.lines, line) },
			Clock:  t.clock,
		},
		end: func(err error) { t.ended = err },
	}
	return t
}

func TestALostConnectionIsToldOnce(t *testing.T) {
	l := newTested()
	for _, err := range []error{nil, errDial, errDial, errInternal, nil, nil, errExpired, errDial} {
		l.report(t.Context(), err)
	}
	want := []string{
		"connection lost, trying again: connection refused", "connected again",
		"connection lost, trying again: connection refused",
	}
	if !slices.Equal(l.lines, want) || l.ended != nil {
		t.Errorf("got %q, %v", l.lines, l.ended)
	}
}

func TestAStreamThatNeverBeginsIsALoss(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		return true, apiwatch.NewEmptyWatch(), nil
	})
	l := newTested()
	l.config.Client = client
	if _, err := newSource(l.config, l.link).WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"connection lost, trying again: the server does not answer"}; !slices.Equal(l.lines, want) {
		t.Errorf("got %q", l.lines)
	}
}

func TestWhatTheServerDoesNotLikeIsNoLoss(t *testing.T) {
	l := newTested()
	l.report(t.Context(), errExpired)
	l.report(t.Context(), apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil))
	l.report(t.Context(), apierrors.NewTooManyRequestsError("later"))
	if len(l.lines) > 0 || l.ended != nil {
		t.Errorf("got %q, %v", l.lines, l.ended)
	}
}

func TestARefusalEndsAWatchThatNeverWorked(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":    {errForbidden, `you may not watch pods in all namespaces; it takes the rights "list" and "watch" on "pods" there`},
		"unauthorized": {apierrors.NewUnauthorized("who?"), "does not accept the credentials"},
		"gone":         {apierrors.NewNotFound(pods, ""), "the server has no pods any more"},
		"not allowed":  {apierrors.NewMethodNotSupported(pods, "watch"), "does not let pods be watched"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTested()
			l.report(t.Context(), fmt.Errorf("list: %w", tc.err))
			if l.ended == nil || !strings.Contains(l.ended.Error(), tc.want) || !errors.Is(l.ended, tc.err) {
				t.Errorf("got %v, want %q", l.ended, tc.want)
			}
		})
	}
}

func TestARefusalIsForgivenForAWhileOnceTheWatchHasWorked(t *testing.T) {
	l := newTested()
	l.established()
	after := func(d time.Duration, err error) {
		l.clock.SetTime(l.clock.Now().Add(d))
		l.report(t.Context(), err)
	}
	after(0, errForbidden)
	after(refusalPatience-time.Second, errForbidden)
	after(0, nil)
	after(refusalPatience, errForbidden)
	if l.ended != nil {
		t.Fatalf("ended by %v", l.ended)
	}
	if after(refusalPatience, errForbidden); !errors.Is(l.ended, errForbidden) {
		t.Errorf("ended by %v", l.ended)
	}
}

func TestTheEndOfTheWatchIsNoLoss(t *testing.T) {
	l := newTested()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.report(ctx, errDial)
	if len(l.lines) > 0 {
		t.Errorf("got %q", l.lines)
	}
}
