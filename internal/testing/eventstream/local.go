package eventstream

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Local returns the configuration of a client that calls list and watch without a network.
// It works in a synctest bubble: every request is a goroutine of the bubble, and ends when
// the client cancels it.
func Local(list Lister, watch Watcher) *rest.Config {
	return &rest.Config{Host: "http://events.local", Transport: local{handler(list, watch)}}
}

// Transport answers requests by calling a handler, without a network. It works in a synctest
// bubble, like Local.
func Transport(h http.Handler) http.RoundTripper { return local{h} }

// local answers requests by calling a handler.
type local struct{ http.Handler }

// RoundTrip implements http.RoundTripper. It returns when the handler has written the header.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	w := &localWriter{header: http.Header{}, body: body, out: out, began: make(chan *http.Response, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.serve(w, r)
	}()
	select {
	case response := <-w.began:
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-ended:
	}
	select {
	case response := <-w.began: // it has ended at once
		return response, nil
	default:
		return nil, errAborted
	}
}

var errAborted = errors.New("the connection was closed")

// serve runs the handler. The body ends with it, or when the client cancels the request.
func (l local) serve(w *localWriter, r *http.Request) {
	done := make(chan struct{})
	var closing sync.WaitGroup
	closing.Go(func() {
		select {
		case <-r.Context().Done():
			_ = w.out.CloseWithError(r.Context().Err())
		case <-done:
		}
	})
	defer func() {
		switch p := recover(); p {
		case nil:
			w.WriteHeader(http.StatusOK)
			_ = w.out.Close()
		case http.ErrAbortHandler: // Stream.Abort
			_ = w.out.CloseWithError(io.ErrUnexpectedEOF)
		default:
			panic(p)
		}
		close(done)
		closing.Wait()
	}()
	l.ServeHTTP(w, r)
}

// localWriter writes the body into a pipe.
type localWriter struct {
	header http.Header
	once   sync.Once
	began  chan *http.Response
	body   io.ReadCloser
	out    *io.PipeWriter
}

// Header implements http.ResponseWriter.
func (w *localWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The handler can change the header afterwards
// without effect, as with net/http.
func (w *localWriter) WriteHeader(code int) {
	w.once.Do(func() { w.began <- &http.Response{StatusCode: code, Header: w.header.Clone(), Body: w.body} })
}

// Write implements http.ResponseWriter. It waits until the client has read p.
func (w *localWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(p) == 0 {
		return 0, nil
	}
	return w.out.Write(p)
}

// Flush implements http.Flusher.
func (w *localWriter) Flush() {}
