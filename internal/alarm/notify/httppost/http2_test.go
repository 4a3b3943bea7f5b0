package httppost_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// frames is an HTTP/2 server that answers each complete request with a frame.
type frames struct {
	answer   func(f *http2.Framer, stream uint32) error
	requests atomic.Int32
}

func (s *frames) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = s.talk(conn)
			_ = conn.Close()
		}()
	}
}

func (s *frames) talk(conn net.Conn) error {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	f := http2.NewFramer(conn, conn)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		header := frame.Header()
		switch {
		case header.Type == http2.FrameSettings && !header.Flags.Has(http2.FlagSettingsAck):
			err = f.WriteSettingsAck()
		case header.StreamID > 0 && header.Flags.Has(http2.FlagDataEndStream): // the flag is the same for headers
			s.requests.Add(1)
			err = s.answer(f, header.StreamID)
		}
		if err != nil {
			return err
		}
	}
}

// In HTTP/2, a server can demand that a request is repeated. Such a server would get thousands of
// requests in an attempt, each with a TLS handshake and without a rate limit.
func TestAServerCannotDemandManyRequests(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for name, answer := range map[string]func(*http2.Framer, uint32) error{
		"protocol error": func(f *http2.Framer, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeProtocol) },
		"refused": func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		},
		"go away": func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) },
	} {
		for what, body := range map[string]string{"a body": "{}", "no body": ""} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = listener.Close() })
				server := &frames{answer: answer}
				go server.serve(listener)
				client := httppost.New(httppost.Config{Roots: roots})
				t.Cleanup(client.Close)
				err = client.Post(t.Context(), httppost.Request{URL: "https://" + listener.Addr().String(), Body: []byte(body)})
				if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Retry {
					t.Errorf("got %v, want a retry", err)
				}
				if n := server.requests.Load(); n < 1 || n > 4 {
					t.Errorf("one attempt made %d requests", n)
				}
			})
		}
	}
}
