package operator

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/testing/setclock"
)

// The other replica can see both the last renewal and the end of the lease one interval late:
// see the constants.
func TestAnotherReplicaLeadsWithin15SecondsOfACrash(t *testing.T) {
	interval := time.Duration((1 + leaderelection.JitterFactor) * float64(retryPeriod))
	if worst := leaseDuration + 2*interval; worst > 15*time.Second {
		t.Errorf("it may take %v", worst)
	}
}

// roundTrip answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheLeaseIsHeldUntilAnotherReplicaCanLead(t *testing.T) {
	passing := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	clk := &setclock.Clock{WithTicker: passing}
	l := &lease{clock: clk, lasts: leaseDuration}
	request := func(method string, status int) {
		t.Helper()
		config := l.config(&rest.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			passing.Step(time.Second)
			return &http.Response{StatusCode: status, Body: http.NoBody}, nil
		})})
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://cluster/lease", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	expect := func(when string, want bool) {
		t.Helper()
		if got := l.mayLead(); got != want {
			t.Errorf("%s: mayLead is %v", when, got)
		}
	}
	fenced, err := rest.HTTPClientFor(l.fenced(&rest.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}))
	if err != nil {
		t.Fatal(err)
	}
	expectWrites := func(when string, want bool) {
		t.Helper()
		for target, allowed := range map[string]bool{"GET /pods": true, "GET /pods/web/exec": want, "POST /secrets": want, "PATCH /jupyters/lab": want} {
			method, path, _ := strings.Cut(target, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, "http://cluster"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := fenced.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != allowed {
				t.Errorf("%s: %s: %v", when, target, err)
			}
		}
	}
	expect("before the first request", false)
	expectWrites("before it leads", true)
	request(http.MethodGet, http.StatusOK)
	request(http.MethodPut, http.StatusConflict)
	expect("after requests that did not renew it", false)
	request(http.MethodPut, http.StatusOK)
	passing.Step(leaseDuration - 2*time.Second)
	expect("shortly before its end", true)
	expectWrites("shortly before its end", true)
	passing.Step(time.Second)
	expect("at its end", false)
	expectWrites("at its end", false)
	request(http.MethodPut, http.StatusOK)
	expect("after a renewal", true)
	clk.Set(time.Hour)
	expect("after the machine was suspended", false)
	request(http.MethodPut, http.StatusOK)
	clk.Set(-time.Hour)
	expect("after the clock was set back", true)
	if !(*lease)(nil).mayLead() {
		t.Error("without leader election, another one can lead")
	}
}
