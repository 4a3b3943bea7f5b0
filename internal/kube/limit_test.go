package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

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
