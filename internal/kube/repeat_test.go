package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/kube"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestFailedReadsAreRepeatedForSomeTime(t *testing.T) {
	const lasts = 2 * time.Minute
	for name, tc := range map[string]struct {
		method, query string
		status        int // 0 is a broken connection
		// heals is when the API server answers again, after begins.
		begins, heals time.Duration
		repeated, ok  bool
	}{
		"a broken connection":       {method: http.MethodGet, heals: 10 * time.Second, repeated: true, ok: true},
		"an overload":               {method: http.MethodGet, status: 429, heals: 10 * time.Second, repeated: true, ok: true},
		"a failure":                 {method: http.MethodGet, status: 503, heals: 100 * time.Second, repeated: true, ok: true},
		"a failure that lasts":      {method: http.MethodGet, status: 503, heals: time.Hour, repeated: true},
		"a refusal":                 {method: http.MethodGet, status: 403, heals: time.Second},
		"an object that is missing": {method: http.MethodGet, status: 404, heals: time.Second},
		"a write":                   {method: http.MethodPost, status: 503, heals: time.Second},
		"a watch":                   {method: http.MethodGet, query: "watch=true", status: 503, heals: time.Second},
		"later":                     {method: http.MethodGet, status: 503, begins: lasts, heals: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starting, started := context.WithTimeout(t.Context(), lasts)
				defer started()
				wrap, requests := kube.RepeatReads(starting, clock.RealClock{}), 0
				time.Sleep(tc.begins)
				heals := time.Now().Add(tc.heals)
				client := &http.Client{Transport: wrap(roundTripper(func(*http.Request) (*http.Response, error) {
					requests++
					status := tc.status
					if !time.Now().Before(heals) {
						status = http.StatusOK
					}
					if status == 0 {
						return nil, errors.New("connection refused")
					}
					return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("{}"))}, nil
				}))}
				request, err := http.NewRequestWithContext(t.Context(), tc.method, "http://api.example/?"+tc.query, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := client.Do(request)
				if err == nil {
					defer func() { _ = answer.Body.Close() }()
				}
				ok := err == nil && answer.StatusCode == http.StatusOK
				if ok != tc.ok || requests > 1 != tc.repeated || time.Since(heals.Add(-tc.heals)) > lasts {
					t.Errorf("%d requests, accepted %v (%v), want repeated %v, accepted %v", requests, ok, err, tc.repeated, tc.ok)
				}
			})
		})
	}
}

func TestARepeatedReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		client := &http.Client{Transport: kube.RepeatReads(t.Context(), clock.RealClock{})(roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		}))}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
		}
		if took := time.Since(begun); err == nil || took > time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
