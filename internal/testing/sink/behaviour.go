package sink

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// Behaviour decides how the sink answers a request.
type Behaviour func(answer)

type answer struct {
	http.ResponseWriter
	request *http.Request
	body    []byte
	sink    *Sink
	index   int
}

// Accept answers 200 "ok", as Slack does.
func Accept() Behaviour { return Status(http.StatusOK, "ok") }

// Status answers with a status and a body.
func Status(code int, body string) Behaviour {
	return func(a answer) {
		if code/100 == 2 {
			a.sink.accept(a.index)
		}
		a.WriteHeader(code)
		_, _ = a.Write([]byte(body))
	}
}

// Serve runs a handler and sends its response when it has returned.
func Serve(h http.Handler) Behaviour {
	return func(a answer) {
		done := httptest.NewRecorder()
		r := a.request.Clone(a.request.Context())
		r.Body = io.NopCloser(bytes.NewReader(a.body))
		h.ServeHTTP(done, r)
		maps.Copy(a.Header(), done.Header())
		Status(done.Code, done.Body.String())(a)
	}
}

// TooMany answers 429 with a Retry-After in seconds.
func TooMany(retryAfterSeconds int) Behaviour {
	return TooManyUntil(strconv.Itoa(retryAfterSeconds))
}

// TooManyUntil answers 429 with any value of Retry-After.
func TooManyUntil(retryAfter string) Behaviour {
	return func(a answer) {
		a.Header().Set("Retry-After", retryAfter)
		Status(http.StatusTooManyRequests, "rate_limited")(a)
	}
}

// Redirect answers with a redirect to a URL.
func Redirect(code int, location string) Behaviour {
	return func(a answer) {
		a.Header().Set("Location", location)
		Status(code, "")(a)
	}
}

// Hang does not answer. It waits until the client gives up or the sink is closed.
func Hang() Behaviour {
	return func(a answer) {
		select {
		case <-a.request.Context().Done():
		case <-a.sink.closing:
		}
		Reset()(a)
	}
}

// Hold waits until release is closed or has a value, and answers as then does.
func Hold(release <-chan struct{}, then Behaviour) Behaviour {
	return func(a answer) {
		select {
		case <-release:
			then(a)
		case <-a.request.Context().Done():
		case <-a.sink.closing:
		}
	}
}

// Reset breaks the connection with a TCP reset instead of an answer.
func Reset() Behaviour {
	return func(a answer) {
		conn, _, err := http.NewResponseController(a.ResponseWriter).Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// Drip answers 200 and sends one byte of the body at each interval, until the client
// disconnects or the sink is closed.
func Drip(interval time.Duration) Behaviour {
	return func(a answer) {
		a.sink.accept(a.index)
		a.WriteHeader(http.StatusOK)
		controller := http.NewResponseController(a.ResponseWriter)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for controller.Flush() == nil {
			select {
			case <-ticker.C:
				_, _ = a.Write([]byte{'.'})
			case <-a.request.Context().Done():
				return
			case <-a.sink.closing:
				return
			}
		}
	}
}
