package apiwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestTheBackoffGrowsFromOneSecondToThirty(t *testing.T) {
	backoff, last := Backoff, time.Duration(0)
	for range 20 {
		last = backoff.Step()
		if last < time.Second || last > 30*time.Second {
			t.Errorf("back-off of %v", last)
		}
	}
	if last < 20*time.Second {
		t.Errorf("back-off ends at %v", last)
	}
}

func TestACommitIsRepeatedUntilItSucceedsOrIsCanceled(t *testing.T) {
	for name, tc := range map[string]struct {
		succeeds, cancels int // the number of the call
		failures          int
		want              error
	}{
		"at once":               {succeeds: 1},
		"after two failures":    {succeeds: 3, failures: 2},
		"canceled by a call":    {succeeds: 3, cancels: 2, failures: 1, want: context.Canceled},
		"canceled by a success": {succeeds: 2, cancels: 2, failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, calls, failures := time.Now(), 0, 0
				got := Commit(ctx, clock.RealClock{}, Backoff, func() error {
					if calls++; calls == tc.cancels {
						cancel()
					}
					if calls == tc.succeeds {
						return nil
					}
					return io.ErrShortWrite
				}, func(error) { failures++ })
				if !errors.Is(got, tc.want) || failures != tc.failures {
					t.Errorf("error %v after %d failures, want %v after %d", got, failures, tc.want, tc.failures)
				}
				if least := time.Duration(1<<tc.failures-1) * time.Second; time.Since(began) < least {
					t.Errorf("it took %v, want %v at least", time.Since(began), least)
				}
			})
		})
	}
}

func TestAPositionExpiresOnlyIfAWatchBringsNothing(t *testing.T) {
	expired, internal := apierrors.NewResourceExpired("too old"), apierrors.NewInternalError(io.ErrShortWrite)
	type result struct{ Expired, Alive bool }
	for name, tc := range map[string]struct {
		err     error
		entries int
		early   bool
		want    result
	}{
		"it expires":                      {expired, 7, false, result{Expired: true}},
		"it ends":                         {io.EOF, 7, true, result{Alive: true}},
		"it ends after a silence":         {io.EOF, 0, false, result{Alive: true}},
		"it ends at once":                 {io.EOF, 0, true, result{Expired: true}},
		"the API server fails":            {internal, 7, true, result{Alive: true}},
		"the API server fails at once":    {internal, 0, true, result{Expired: true}},
		"the connection breaks":           {io.ErrUnexpectedEOF, 7, true, result{Alive: true}},
		"the connection breaks at once":   {io.ErrUnexpectedEOF, 0, true, result{}},
		"the connection delivers nothing": {ErrIdle, 0, false, result{Alive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			got.Expired, got.Alive = Ended(tc.err, tc.entries, tc.early)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answer is the answer to a request for a page: the metadata of a list, or an error.
type answer struct {
	version, next string
	err           *apierrors.StatusError
	tooLarge      bool
}

// server answers one request after another.
type server struct {
	answers []answer
	asked   []string // limit and token
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	next := s.answers[len(s.asked)]
	s.asked = append(s.asked, r.URL.Query().Get("limit")+" "+r.URL.Query().Get("continue"))
	code, content := http.StatusOK, any(metav1.ListMeta{ResourceVersion: next.version, Continue: next.next})
	if next.err != nil {
		next.err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		code, content = int(next.err.ErrStatus.Code), next.err.ErrStatus
	}
	raw, err := json.Marshal(content)
	if next.tooLarge {
		raw = []byte("large")
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw))}, err
}

func decodeMeta(page io.Reader, _ func(int) error) (meta metav1.ListMeta, err error) {
	raw, err := io.ReadAll(page)
	if string(raw) == "large" {
		return meta, kube.ErrTooLarge
	}
	return meta, errors.Join(err, json.Unmarshal(raw, &meta))
}

func TestAListContinuesAtANewerPositionAndWithSmallerPages(t *testing.T) {
	expires := func(token string) answer {
		err := apierrors.NewResourceExpired("the provided continue parameter is too old")
		err.ErrStatus.Continue = token
		return answer{err: err}
	}
	first, last := answer{version: "7", next: "b"}, answer{version: "7"}
	for name, tc := range map[string]struct {
		answers []answer
		exact   bool
		want    []string
		listed  uint64
		renewed bool
		fails   bool
	}{
		"one page":            {answers: []answer{last}, want: []string{"500 "}, listed: 7},
		"two pages":           {answers: []answer{first, last}, want: []string{"500 ", "500 b"}, listed: 7},
		"pages are too large": {answers: []answer{{tooLarge: true}, first, first, last}, want: []string{"500 ", "62 ", "124 b", "248 b"}, listed: 7},
		"an object is too large": {
			answers: slices.Repeat([]answer{{tooLarge: true}}, 4),
			want:    []string{"500 ", "62 ", "7 ", "1 "}, fails: true,
		},
		"its position expires": {
			answers: []answer{first, expires("c"), {version: "9"}},
			want:    []string{"500 ", "500 b", "500 c"}, listed: 7, renewed: true,
		},
		"an exact position expires": {
			answers: []answer{first, expires("c")}, exact: true,
			want: []string{"500 ", "500 b"}, listed: 7, fails: true,
		},
		"each position expires": {
			answers: []answer{first, expires("c"), expires("d"), expires("e"), expires("f")},
			want:    []string{"500 ", "500 b", "500 c", "500 d", "500 e"}, listed: 7, renewed: true, fails: true,
		},
		"a page has no position": {answers: []answer{first, {}}, want: []string{"500 ", "500 b"}, listed: 7, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answers: tc.answers}
			c, err := NewClient(&rest.Config{Host: "http://api.example", Transport: s}, "application/json", decodeMeta)
			if err != nil {
				t.Fatal(err)
			}
			opts := metav1.ListOptions{}
			if tc.exact {
				opts = ListAt(7)
			}
			listed, renewed, err := c.List(t.Context(), opts, func(int) error { return nil })
			if listed != tc.listed || renewed != tc.renewed || (err != nil) != tc.fails {
				t.Errorf("position %d, renewed %t, error %v: want %d, %t, and an error: %t", listed, renewed, err, tc.listed, tc.renewed, tc.fails)
			}
			if diff := cmp.Diff(tc.want, s.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}
