package httppost_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// pipes is a listener whose connections are in memory, so that a bubble controls the time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestTheTimeLimitOfAnAnswerStartsWithTheConnection(t *testing.T) {
	const limit = 20 * time.Second
	for name, tc := range map[string]struct {
		timeout, connects, answers, body time.Duration
		want                             time.Duration // 0: it is accepted
	}{
		"default, in time":       {answers: 9 * time.Second},
		"default, late":          {answers: 11 * time.Second, want: 10 * time.Second},
		"in time":                {timeout: limit, connects: 4 * time.Second, answers: 19 * time.Second},
		"late":                   {timeout: limit, connects: 4 * time.Second, answers: 21 * time.Second, want: 24 * time.Second},
		"never connected":        {timeout: limit, connects: time.Hour, want: 30 * time.Second},
		"answers and then hangs": {timeout: limit, body: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(2 * time.Hour) // until the server's handler has ended
				listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(tc.answers)
					w.WriteHeader(http.StatusOK)
					if tc.body > 0 {
						w.(http.Flusher).Flush()
						<-r.Context().Done()
					}
				})}
				go func() { _ = server.Serve(listener) }()
				defer func() { _ = server.Close() }()
				client := httppost.New(httppost.Config{})
				defer client.Close()
				httppost.SetDial(client, func(ctx context.Context, _, _ string) (net.Conn, error) {
					select {
					case <-time.After(tc.connects):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					here, there := net.Pipe()
					listener.conns <- there
					return here, nil
				})
				start := time.Now()
				err := client.WithTimeout(tc.timeout).Post(t.Context(), httppost.Request{URL: "http://receiver/"})
				took := time.Since(start)
				if tc.want == 0 {
					if err != nil {
						t.Errorf("after %v: %v", took, err)
					}
					return
				}
				e, ok := errors.AsType[*notify.SendError](err)
				if !ok || e.Class != notify.Retry || !strings.Contains(e.Text, "did not answer in time") || took != tc.want {
					t.Errorf("got %v after %v, want a retry after %v", err, took, tc.want)
				}
			})
		})
	}
}

// The resolver would try for 10 seconds or longer.
func TestANameThatIsNotResolvedIsGivenUpAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := httppost.New(httppost.Config{Timeout: 10 * time.Minute, Resolver: &net.Resolver{
			PreferGo: true,
			Dial:     func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		}})
		defer client.Close()
		start := time.Now()
		err := client.Post(t.Context(), httppost.Request{URL: "http://receiver.example.com/"})
		if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Retry || time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if _, err := client.Dial(t.Context(), "receiver.example.com:25"); err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("Dial returned %v after %v in all", err, time.Since(start))
		}
	})
}

// After 101, net/http gives the connection to the caller, and the end of the context no longer
// closes it.
func TestAServerThatSwitchesProtocolsHoldsNoRequest(t *testing.T) {
	for _, url := range []string{"http://receiver/", "http://token/"} {
		synctest.Test(t, func(t *testing.T) {
			client := httppost.New(httppost.Config{})
			defer client.Close()
			closed := make(chan struct{})
			httppost.SetDial(client, func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer close(closed)
					_, _ = http.ReadRequest(bufio.NewReader(there))
					_, _ = io.WriteString(there, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					_, _ = io.Copy(io.Discard, there)
				}()
				return here, nil
			})
			if url == "http://token/" {
				client = client.WithOAuth2(httppost.OAuth2{TokenURL: url, Clock: clock.RealClock{}})
			}
			err := client.Post(t.Context(), httppost.Request{URL: "http://receiver/"})
			if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Stop {
				t.Errorf("%s: got %v, want a parked receiver", url, err)
			}
			<-closed
		})
	}
}
