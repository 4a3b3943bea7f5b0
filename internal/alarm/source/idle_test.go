package source

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// transport answers lists with an empty one at a late position, and watches with a function
// that writes the body. It uses no network, and therefore works in a synctest bubble.
type transport func(n int, body *io.PipeWriter)

func (watched transport) config() *rest.Config {
	var watches int
	return &rest.Config{Host: "http://api.example", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			list, _ := holds(1 << 20)(nil)
			return response(io.NopCloser(bytes.NewReader(eventstream.Encode(list)))), nil
		}
		watches++
		out, in := io.Pipe()
		context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
		go watched(watches, in)
		return response(out), nil
	})}
}

func response(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}, Body: body}
}

// silence is the documented time after which a watch that brings nothing is replaced.
const silence = 2 * time.Minute

func TestAWatchThatBringsNothingIsReplacedWithinTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := transport(func(n int, body *io.PipeWriter) {
			if n == 2 {
				_, _ = body.Write(added(event(1, 21, 1)))
			}
		}).config()
		m := newMemory()
		source := quick(t, cfg)
		stop := run(t, source, Start{Position: 20, CountsKnown: true}, m.commit)
		defer stop()
		time.Sleep(silence)
		synctest.Wait()
		if got := m.at(); got != 21 {
			t.Errorf("position %d after %v, want 21", got, silence)
		}
		if s := source.State(); s.IdleReconnects != 1 || s.Relists != 0 {
			t.Errorf("%d idle reconnects and %d relists, want one reconnect", s.IdleReconnects, s.Relists)
		}
	})
}

func TestASlowWatchIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 10
		cfg := transport(func(_ int, body *io.PipeWriter) {
			for n := range events {
				time.Sleep(apiwatch.IdleTimeout - time.Second)
				_, _ = body.Write(added(event(n, uint64(21+n), 1)))
			}
		}).config()
		m := newMemory()
		source := quick(t, cfg)
		source.client.WatchTimeout = apiwatch.WatchTimeout
		stop := run(t, source, Start{Position: 20, CountsKnown: true}, m.commit)
		defer stop()
		time.Sleep(events * apiwatch.IdleTimeout)
		synctest.Wait()
		if s := source.State(); m.at() != 20+events || s.Connects != 1 {
			t.Errorf("position %d after %d watches, want one watch", m.at(), s.Connects)
		}
	})
}

// A proxy can accept each watch and break it at once.
func TestAWatchThatBreaksAtOnceIsRetriedAfterABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watches int
		cfg := transport(func(n int, body *io.PipeWriter) {
			if watches = n; n < 100 {
				_ = body.CloseWithError(io.ErrUnexpectedEOF)
			}
		}).config()
		source := quick(t, cfg)
		source.backoff = apiwatch.Backoff
		stop := run(t, source, Start{Position: 20, CountsKnown: true}, newMemory().commit)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if most := 7; watches > most || watches < 2 {
			t.Errorf("%d watches within a minute, want 2 to %d", watches, most)
		}
	})
}

// The API server sends no bookmarks for Events. An Event that is updated does not have a newer
// creation time.
func TestTheEndOfAWatchAfterASilenceShowsThatAllEventsAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		position uint64
		silence  time.Duration
		end      error
		want     time.Duration // after the start of the watch, 0 for never
	}{
		"the API server ends it":                         {21, ClockDifference, nil, 40 * time.Second},
		"an Event came just before":                      {21, ClockDifference - time.Second, nil, 0},
		"the connection breaks":                          {21, ClockDifference, io.ErrUnexpectedEOF, 0},
		"an Event came that was created after the start": {1 << 20, time.Second, nil, -ClockDifference},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				cfg := transport(func(n int, body *io.PipeWriter) {
					if n > 1 {
						return
					}
					time.Sleep(40 * time.Second)
					_, _ = body.Write(added(event(1, tc.position, 1)))
					time.Sleep(tc.silence)
					_ = body.CloseWithError(tc.end)
				}).config()
				m := newMemory()
				var readUpTo time.Time
				stop := run(t, quick(t, cfg), Start{Position: 20, CountsKnown: true}, func(ctx context.Context, b Batch) error {
					readUpTo = alarm.Later(readUpTo, b.ReadUpTo)
					return m.commit(ctx, b)
				})
				defer stop()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := time.Time{}
				if tc.want != 0 {
					want = began.Add(tc.want)
				}
				if !readUpTo.Equal(want) || m.at() != tc.position {
					t.Errorf("read up to %v and position %d, want %v", readUpTo, m.at(), want)
				}
			})
		})
	}
}

// A watch that waits for the handler is not idle, however long the handler takes.
func TestAWatchIsNotReplacedBecauseTheHandlerIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 3 * maxChanges
		cfg := transport(func(_ int, body *io.PipeWriter) {
			for n := range events {
				_, _ = body.Write(added(event(n, uint64(21+n), 1)))
			}
		}).config()
		m := newMemory()
		source := quick(t, cfg)
		slow := func(ctx context.Context, b Batch) error {
			time.Sleep(apiwatch.IdleTimeout)
			return m.commit(ctx, b)
		}
		stop := run(t, source, Start{Position: 20, CountsKnown: true}, slow)
		defer stop()
		time.Sleep((events - 2*maxChanges) / maxOccurrences * apiwatch.IdleTimeout)
		synctest.Wait()
		if source.State().Events == events {
			t.Error("the reader did not wait for the handler: the test shows nothing")
		}
		if s := source.State(); s.IdleReconnects != 0 {
			t.Errorf("%d idle reconnects, want none", s.IdleReconnects)
		}
	})
}

// proxy forwards connections to an API server. After mute, it keeps the existing ones open
// and forwards nothing.
type proxy struct {
	net.Listener
	backend string
	muted   atomic.Int64
	opened  atomic.Int64
	open    sync.WaitGroup
}

func newProxy(t *testing.T, backend string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener, backend: backend}
	p.open.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.open.Wait()
	})
	return p
}

// mute silences the connections that are open now.
func (p *proxy) mute() { p.muted.Store(p.opened.Load()) }

func (p *proxy) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.backend)
		if err != nil {
			_ = client.Close()
			continue
		}
		n := p.opened.Add(1)
		p.open.Go(func() { p.forward(n, client, server) })
		p.open.Go(func() { p.forward(n, server, client) })
	}
}

// forward copies one direction of the n-th connection.
func (p *proxy) forward(n int64, to, from net.Conn) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		read, err := from.Read(buffer)
		if err != nil {
			return
		}
		if n <= p.muted.Load() {
			continue
		}
		if _, err := to.Write(buffer[:read]); err != nil {
			return
		}
	}
}

// testSilence updates an Event, which does not have a newer creation time, and then waits. The API
// server ends the watch, and sends no bookmark.
func testSilence(t *testing.T, s *apiServer) {
	s.create("event-before-silence", 1)
	m := newMemory()
	s.begin(m)
	source := quick(t, s.RESTConfig())
	source.client.WatchTimeout = ClockDifference + 2*time.Second
	var readUpTo atomic.Int64
	run(t, source, m.start(), func(ctx context.Context, b Batch) error {
		readUpTo.Store(max(readUpTo.Load(), b.ReadUpTo.UnixMicro()))
		return m.commit(ctx, b)
	})
	s.count("event-before-silence", 2)
	eventually(t, m.ours).Should(gomega.HaveKey("event-before-silence"))
	updated := time.Now()
	eventually(t, readUpTo.Load).Should(gomega.BeNumerically(">", updated.UnixMicro()))
	if got := source.State(); got.Relists != 0 {
		t.Errorf("%d relists, want the watch to resume", got.Relists)
	}
}

// testSilentProxy disables the pings of HTTP/2, which is as if the proxy answered them.
func testSilentProxy(t *testing.T, s *apiServer) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "0")
	cfg := s.RESTConfig()
	target, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, target.Host)
	target.Host = p.Addr().String()
	cfg.Host = target.String()

	m := newMemory()
	s.begin(m)
	source := quick(t, cfg)
	source.client.IdleTimeout = 2 * time.Second
	run(t, source, m.start(), m.commit)
	s.create("event-silent-before", 1)
	eventually(t, m.ours).Should(gomega.HaveKey("event-silent-before"))
	p.mute()
	connections := p.opened.Load()
	s.create("event-silent-after", 3)
	eventually(t, m.ours).Should(gomega.HaveKeyWithValue("event-silent-after", int64(3)))
	if got := source.State(); got.IdleReconnects == 0 || p.opened.Load() == connections {
		t.Errorf("%d idle reconnects, %d new connections: want both", got.IdleReconnects, p.opened.Load()-connections)
	}
	if got := source.State().Relists; got != 0 {
		t.Errorf("%d relists, want the watch to resume", got)
	}
}
