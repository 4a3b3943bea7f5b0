package operator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// The client of Kubernetes waits as long as an answer says. The answer can come from a proxy.
func TestAnAnswerDelaysARequestForAMinuteAtMost(t *testing.T) {
	for retryAfter, want := range map[string]time.Duration{"1": time.Second, "60": time.Minute, "31536000": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if requests++; requests == 1 {
					w.Header().Set("Retry-After", retryAfter)
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				if err := json.NewEncoder(w).Encode(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}); err != nil {
					t.Error(err)
				}
			})
			client, err := kubernetes.NewForConfig(withLimits(&rest.Config{Host: "http://api.local", Transport: eventstream.Transport(answer)}))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = client.CoreV1().ConfigMaps("bongsu-system").Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bongsu-checkpoint"}}, metav1.UpdateOptions{})
			if took := time.Since(began); err != nil || took != want {
				t.Errorf("Retry-After %s: the write took %v, error %v, want %v", retryAfter, took, err, want)
			}
		})
	}
}

// A proxy can hold a request for ever, and answer pings meanwhile.
func TestARequestWaitsForAnAnswerForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		client, err := kubernetes.NewForConfig(withLimits(&rest.Config{Host: "http://api.local", Transport: eventstream.Transport(hold)}))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = client.CoreV1().ConfigMaps("bongsu-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bongsu-checkpoint"}}, metav1.CreateOptions{})
		if took := time.Since(began); !errors.Is(err, kube.ErrNoAnswer) || took != maxWait {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// Some readers of the manager have such a limit, for example the event cache.
func TestAContextLimitsTheResponsesOfTheManager(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12345") })
	c, err := rest.HTTPClientFor(withLimits(&rest.Config{Host: "http://api.local", Transport: eventstream.Transport(answer)}))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]error{4: kube.ErrTooLarge, 5: nil} {
		request, err := http.NewRequestWithContext(kube.WithResponseLimit(t.Context(), limit), http.MethodGet, "http://api.local/api", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(response.Body)
		if closeErr := response.Body.Close(); !errors.Is(err, want) || closeErr != nil {
			t.Errorf("with a limit of %d bytes, the error is %v, want %v", limit, errors.Join(err, closeErr), want)
		}
	}
}
