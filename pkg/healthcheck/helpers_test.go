package healthcheck_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// podIP is a documentation address: the test dials a local server instead.
const podIP = "192.0.2.7"

// secret must not appear in any message.
const secret = "s3cret"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// dialTo connects to an address whichever is asked for.
func dialTo(address string) healthcheck.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

func checker(t testing.TB, apiServer string, exec healthcheck.Execer, dial healthcheck.DialFunc) *healthcheck.Checker {
	t.Helper()
	c, err := healthcheck.New(testclock.NewFakePassiveClock(noon), &rest.Config{Host: apiServer, BearerToken: secret}, exec, dial)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run makes a check, and looks at what must hold for any.
func run(t *testing.T, c *healthcheck.Checker, check healthcheck.Check) healthcheck.Observation {
	t.Helper()
	began := time.Now()
	o := c.Run(t.Context(), check)
	if took := time.Since(began); took > check.Limit()+5*time.Second {
		t.Errorf("it took %s", took)
	}
	if !o.At.Equal(noon) {
		t.Errorf("it began at %s", o.At)
	}
	if len(o.Message) > 512 || strings.ContainsAny(o.Message, "\n\r\x1b\x00") {
		t.Errorf("it is not one line of 512 bytes: %q", o.Message)
	}
	for _, what := range []string{secret, podIP, "127.0.0.1"} {
		if strings.Contains(o.Message, what) {
			t.Errorf("the message contains %s: %s", what, o.Message)
		}
	}
	return o
}

// brief is an observation in a line.
func brief(o healthcheck.Observation) string {
	return strings.TrimSpace(string(o.Outcome) + " " + o.Message)
}

func expect(t *testing.T, want string, got healthcheck.Observation) {
	t.Helper()
	if diff := cmp.Diff(want, brief(got)); diff != "" {
		t.Error(diff)
	}
}

// get is a check of the pod by HTTP.
func get(path string, change ...func(*healthcheck.HTTP)) healthcheck.Check {
	h := &healthcheck.HTTP{IP: podIP, Node: "node-0", Port: 8080, Path: path}
	for _, f := range change {
		f(h)
	}
	return healthcheck.Check{Namespace: "team", Pod: "web-0", PodUID: "uid", Timeout: time.Second, HTTP: h}
}

func https(h *healthcheck.HTTP) { h.Scheme = corev1.URISchemeHTTPS }

func header(name, value string) func(*healthcheck.HTTP) {
	return func(h *healthcheck.HTTP) { h.Headers = append(h.Headers, corev1.HTTPHeader{Name: name, Value: value}) }
}

// commands answers every run of a command.
type commands func(ctx context.Context, target podexec.Target, command []string, limit time.Duration) (podexec.Result, error)

func (c commands) Run(ctx context.Context, target podexec.Target, command []string, limit time.Duration) (podexec.Result, error) {
	return c(ctx, target, command, limit)
}
