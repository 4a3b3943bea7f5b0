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

	"github.com/bongsu-io/bongsu/internal/kube"
)

type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

func TestAResponseEndsAtItsLimit(t *testing.T) {
	for text, fits := range map[string]bool{"": true, "123": true, "1234": true, "12345": false, strings.Repeat("1", 10_000): false} {
		got, err := readLimited(t, t.Context(), text, 4)
		if fits && (err != nil || got != text) || !fits && (!errors.Is(err, kube.ErrTooLarge) || len(got) > 4) {
			t.Errorf("%d bytes: read %d, error %v", len(text), len(got), err)
		}
	}
}

func TestAContextCanOnlyLowerTheLimitOfAResponse(t *testing.T) {
	for limit, fits := range map[int64]bool{3: false, 4: true, 100: true} {
		if _, err := readLimited(t, kube.WithResponseLimit(t.Context(), limit), "1234", 4); (err == nil) != fits {
			t.Errorf("limit %d: error %v", limit, err)
		}
	}
	if _, err := readLimited(t, kube.WithResponseLimit(t.Context(), 100), "12345", 4); !errors.Is(err, kube.ErrTooLarge) {
		t.Errorf("a higher limit: error %v", err)
	}
}

// readLimited returns what can be read of a response.
func readLimited(t *testing.T, ctx context.Context, text string, limit int64) (string, error) {
	t.Helper()
	response, err := kube.LimitResponses(limit)(answering(text)).RoundTrip((&http.Request{}).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); closeErr != nil {
		t.Error(closeErr)
	}
	return string(got), err
}

// held holds each request until its context ends.
type held struct{}

func (held) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func TestARequestWithoutAnAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		response, err := kube.LimitWait(time.Minute)(held{}).RoundTrip((&http.Request{}).WithContext(t.Context()))
		if err == nil {
			_ = response.Body.Close()
		}
		if waited := time.Since(begin); !errors.Is(err, kube.ErrNoAnswer) || waited != time.Minute {
			t.Errorf("after %s: %v", waited, err)
		}
	})
}

// streaming answers at once, with a body that does not end before the context.
type streaming struct{}

func (streaming) RoundTrip(request *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	context.AfterFunc(request.Context(), func() { _ = w.CloseWithError(request.Context().Err()) })
	go func() {
		time.Sleep(time.Hour)
		_, _ = io.WriteString(w, "late")
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: r}, nil
}

// A watch lasts longer.
func TestTheBodyOfAnAnswerHasNoTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		response, err := kube.LimitWait(time.Minute)(streaming{}).RoundTrip((&http.Request{}).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != "late" {
			t.Errorf("read %q, %v", got, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}
