package sink_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// post returns the status code, or 0 if there was no response.
func post(t *testing.T, ctx context.Context, s *sink.Sink, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(key))
	if err != nil {
		t.Fatal(err)
	}
	req.Header["idempotency-key"] = []string{key}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestASinkFollowsItsScriptAndThenTheDefault(t *testing.T) {
	s := sink.New(t)
	s.Always(sink.Status(503, ""))
	s.Script(sink.Accept(), sink.TooMany(1), sink.Reset(), sink.Status(500, ""), sink.Redirect(302, "http://127.0.0.1"))
	var got []int
	for range 6 {
		got = append(got, post(t, t.Context(), s, "k"))
	}
	if diff := cmp.Diff([]int{200, 429, 0, 500, 302, 503}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if accepted, all := len(s.Accepted()), len(s.Requests()); accepted != 1 || all != 6 {
		t.Errorf("accepted %d of %d requests, want 1 of 6", accepted, all)
	}
}

func TestAHangingSinkReleasesAClientThatGivesUp(t *testing.T) {
	s := sink.New(t)
	s.Always(sink.Hang())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got := post(t, ctx, s, "k"); got != 0 {
		t.Errorf("got status %d, want no response", got)
	}
}

func TestAllRequestsAreRecordedWhenTheirClientsHaveDisconnected(t *testing.T) {
	s := sink.New(t)
	release := make(chan struct{})
	s.Always(sink.Hold(release, sink.Accept()))
	client, err := net.Dial("tcp", strings.TrimPrefix(s.URL()[:strings.LastIndex(s.URL(), "/services")], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if s.AwaitHangUp(50 * time.Millisecond) {
		t.Error("AwaitHangUp = true while the client is connected, want false")
	}
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if !s.AwaitHangUp(time.Minute) || len(s.Requests()) != 1 {
		t.Errorf("AwaitHangUp failed or recorded %d requests, want 1", len(s.Requests()))
	}
}

func TestAuditFindsLostAndDuplicateDeliveries(t *testing.T) {
	s := sink.New(t)
	s.Script(sink.Accept(), sink.Accept(), sink.Accept(), sink.Status(500, ""), sink.Accept())
	for _, key := range []string{"a", "b", "b", "c", "x"} {
		post(t, t.Context(), s, key)
	}
	want := sink.Report{Delivered: 3, Duplicates: map[string]int{"b": 1}, Lost: []string{"c"}, Unexpected: []string{"x"}}
	if diff := cmp.Diff(want, s.Audit([]string{"a", "b", "c"}, sink.ByKey)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
