package enrich_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// failingReader fails every read with err, and counts the reads. Objects with the names in
// readable exist.
type failingReader struct {
	err      error
	readable []string
	reads    int
}

func (r *failingReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads++
	if !slices.Contains(r.readable, key.Name) {
		return r.err
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return nil
}

func (*failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not expected")
}

func (*failingReader) Count(context.Context) (int64, error) { return 3, nil }

func statusError(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "https://10.0.0.1:6443"}}
}

func podNamed(name string) *alarm.Event {
	return event("shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name})
}

func TestOnlyAnAnswerMeansThatTheObjectIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		unread bool
	}{
		"not found":           {apierrors.NewNotFound(corev1.Resource("pods"), "web-0"), false},
		"bad request":         {statusError(http.StatusBadRequest), false},
		"method not allowed":  {statusError(http.StatusMethodNotAllowed), false},
		"unprocessable":       {statusError(http.StatusUnprocessableEntity), false},
		"too many requests":   {apierrors.NewTooManyRequestsError("slow down"), true},
		"unavailable":         {apierrors.NewServiceUnavailable("not now"), true},
		"internal error":      {apierrors.NewInternalError(errors.New("decrypt")), true},
		"bad gateway":         {statusError(http.StatusBadGateway), true},
		"request timeout":     {statusError(http.StatusRequestTimeout), true},
		"forbidden":           {apierrors.NewForbidden(corev1.Resource("pods"), "web-0", nil), true},
		"unauthorized":        {apierrors.NewUnauthorized("expired"), true},
		"wrapped":             {fmt.Errorf("read: %w", apierrors.NewServiceUnavailable("not now")), true},
		"connection refused":  {&url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: syscall.ECONNREFUSED}, true},
		"end of the response": {io.ErrUnexpectedEOF, true},
		"time is up":          {context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			live := &failingReader{err: tc.err}
			got := enrich.New("test", live, live).Context(t.Context(), podNamed("web-0"))
			if got.Resolved || got.ObjectUnread != "" != tc.unread {
				t.Errorf("resolved=%v, unread=%q", got.Resolved, got.ObjectUnread)
			}
			if strings.Contains(string(got.ObjectUnread), "10.0.0.1") {
				t.Errorf("the text names the API server: %s", got.ObjectUnread)
			}
		})
	}
}

// Tenants write references. A read that can only fail must not look like a failure of the
// API server.
func TestReferencesThatNoObjectCanHaveAreNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		ref       alarm.Reference
	}{
		"a Pod without a namespace":       {metav1.NamespaceDefault, alarm.Reference{APIVersion: "v1", Kind: "Pod", Name: "web-0"}},
		"a Node in a namespace":           {"shop", alarm.Reference{APIVersion: "v1", Kind: "Node", Namespace: "shop", Name: "node-0"}},
		"no name":                         {"shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop"}},
		"a name with a slash":             {"shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "../web"}},
		"a name that is too long":         {"shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: strings.Repeat("a", 254)}},
		"a kind that is not read":         {"shop", alarm.Reference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "web"}},
		"an invalid API version":          {"shop", alarm.Reference{APIVersion: "a/b/c", Kind: "Pod", Namespace: "shop", Name: "web"}},
		"an object of another namespace":  {"shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "bank", Name: "web"}},
		"a cluster's object, by a tenant": {"shop", alarm.Reference{APIVersion: "v1", Kind: "PersistentVolume", Name: "data"}},
	} {
		t.Run(name, func(t *testing.T) {
			live := &failingReader{err: apierrors.NewServiceUnavailable("not now")}
			got := enrich.New("test", live, live).Context(t.Context(), event(tc.namespace, tc.ref))
			if got.Resolved || got.ObjectUnread != "" || live.reads > 0 {
				t.Errorf("resolved=%v, unread=%q after %d reads", got.Resolved, got.ObjectUnread, live.reads)
			}
		})
	}
}

func TestAFailedReadPausesItsObjectAndNamespace(t *testing.T) {
	live := &failingReader{err: apierrors.NewTooManyRequestsError("slow down"), readable: []string{"other"}}
	e := enrich.New("test", live, live)
	for _, name := range []string{"web-0", "web-0", "web-1", "web-2"} {
		if got := e.Context(t.Context(), podNamed(name)); got.ObjectUnread == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	elsewhere := event("bank", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "bank", Name: "other"})
	if !e.Context(t.Context(), elsewhere).Resolved {
		t.Error("an object of another namespace is not read")
	}
	if live.reads != 2 {
		t.Errorf("%d reads, want one for each namespace", live.reads)
	}
}

// An object whose UID the API server gave it existed before its Events, and never returns.
// Other objects can appear after their Events.
func TestEventsOfAnObjectThatIsGoneShareARead(t *testing.T) {
	const uid, events = "3e0c4d6a-4b1c-4f0e-8f3e-000000000000", 1000
	notFound := apierrors.NewNotFound(corev1.Resource("pods"), "web-0")
	for name, tc := range map[string]struct {
		uid    string
		reader failingReader
		shared bool
	}{
		"it is not found":                      {uid, failingReader{err: notFound}, true},
		"another object has its name":          {uid, failingReader{readable: []string{"web-0"}}, true},
		"an Event without a UID":               {"", failingReader{err: notFound}, false},
		"a static pod without its mirror pod":  {"aa8a5bd2b8d6e4f2f0b9a1ac8a1c2c0e", failingReader{err: notFound}, false},
		"a UID that is the name":               {"web-0", failingReader{err: notFound}, false},
		"the API server did not take the name": {uid, failingReader{err: statusError(http.StatusUnprocessableEntity)}, false},
		"a UID in another form":                {"{" + uid + "}", failingReader{err: notFound}, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := &tc.reader
			e, about := enrich.New("test", live, live), podNamed("web-0")
			about.Regarding.UID = tc.uid
			for range events {
				if got := e.Context(t.Context(), about); got.Resolved || got.ObjectUnread != "" {
					t.Fatalf("resolved=%v, unread=%q", got.Resolved, got.ObjectUnread)
				}
			}
			if shared := live.reads < events/10; shared != tc.shared {
				t.Errorf("%d reads for %d Events", live.reads, events)
			}
			about.Regarding.UID = "ee2eb3a1-2a68-4a0b-9a42-000000000000"
			if before := live.reads; e.Context(t.Context(), about).Resolved || live.reads != before+1 {
				t.Errorf("%d reads of the next object of that name, want one", live.reads-before)
			}
		})
	}
}

func TestAReadIsNotStartedAfterTheEndOfItsTime(t *testing.T) {
	live := &failingReader{readable: []string{"web-0"}}
	e := enrich.New("test", live, live)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := e.Context(ended, podNamed("web-0")); got.ObjectUnread == "" || live.reads > 0 {
		t.Errorf("unread=%q after %d reads", got.ObjectUnread, live.reads)
	}
	if !e.Context(t.Context(), podNamed("web-0")).Resolved {
		t.Error("not read later")
	}
}

func TestUnknownNumberOfNodesIsNotZero(t *testing.T) {
	live := &failingReader{readable: []string{"web-0"}}
	got := enrich.New("test", startingNodes{live}, live).Context(t.Context(), podNamed("web-0"))
	if got.NodesUnread == "" || !got.Resolved || got.ObjectUnread != "" {
		t.Errorf("got %+v", got)
	}
}

// startingNodes are Nodes whose cache is not complete.
type startingNodes struct{ *failingReader }

func (startingNodes) Count(context.Context) (int64, error) { return 0, errors.New("not yet") }

// Nodes are in memory. Other objects without a namespace that cannot be read do not matter.
func TestCachedNodesAreNotPaused(t *testing.T) {
	live := &failingReader{err: apierrors.NewServiceUnavailable("not now")}
	e := enrich.New("test", &failingReader{readable: []string{"node-0"}}, live)
	volume := event(metav1.NamespaceDefault, alarm.Reference{APIVersion: "v1", Kind: "PersistentVolume", Name: "data"})
	if got := e.Context(t.Context(), volume); got.ObjectUnread == "" {
		t.Errorf("the volume: %+v", got)
	}
	node := event(metav1.NamespaceDefault, alarm.Reference{APIVersion: "v1", Kind: "Node", Name: "node-0"})
	if got := e.Context(t.Context(), node); !got.Resolved {
		t.Errorf("the Node: %+v", got)
	}
}

func TestAWarningOfAnotherKindHasTheCauseThatItContains(t *testing.T) {
	const quota = `Error creating: pods "web-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`
	about := func(namespace string) *alarm.Event {
		e := event(namespace, alarm.Reference{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web"})
		e.Type, e.Reason, e.Note = "Warning", "FailedCreate", quota
		return e
	}
	for name, tc := range map[string]struct {
		event *alarm.Event
		live  *failingReader
		want  string
	}{
		"of an object that exists":        {about("shop"), &failingReader{readable: []string{"web"}}, `ResourceQuota "team" is exceeded`},
		"of an object that is gone":       {about("shop"), &failingReader{err: apierrors.NewNotFound(corev1.Resource("replicasets"), "web")}, ""},
		"of an object elsewhere":          {about("other"), &failingReader{readable: []string{"web"}}, ""},
		"of an object that is unreadable": {about("shop"), &failingReader{err: errors.New("no answer")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := enrich.New("test", tc.live, tc.live).Context(t.Context(), tc.event).Object.Cause
			if !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q", got)
			}
			if tc.live.reads > 1 {
				t.Errorf("%d reads", tc.live.reads)
			}
		})
	}
}
