package endpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bongsu-io/bongsu/internal/operator/endpoint"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// serve starts a server, and returns its address.
func serve(t *testing.T, secure bool, handler http.HandlerFunc) string {
	t.Helper()
	s, err := endpoint.New(t.Context(), "test", "127.0.0.1:0", secure, handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Listener.Addr().String()
}

func accept(http.ResponseWriter, *http.Request) {}

// flood opens connections from addresses of the loopback range, in turn. Each sends data, and then
// stays open until the server closes it or the test ends.
func flood(t *testing.T, address string, connections, addresses int, data []byte) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for n := range connections {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n%addresses))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		running.Go(func() {
			_, _ = conn.Write(data)
			_, _ = conn.Read(make([]byte, 1))
		})
	}
}

// heap returns the size of the objects in the heap.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestAFloodNeitherFillsTheHeapNorKeepsOthersOut(t *testing.T) {
	const connections, limit = 1000, 64 << 20
	large := append([]byte("GET /readyz HTTP/1.1\r\nHost: a\r\nX-Large: "), bytes.Repeat([]byte("a"), 1<<20)...)
	for name, tc := range map[string]struct {
		secure    bool
		addresses int
		data      []byte
	}{
		"a header without end":                {false, 1, large},
		"headers without end":                 {false, 1, append(large[:30:30], bytes.Repeat([]byte("X-A: a\r\n"), 1<<17)...)},
		"headers that stop":                   {false, 1, large[:4000]},
		"headers that stop of many addresses": {false, 200, large[:4000]},
		"nothing":                             {true, 1, nil},
		"a TLS handshake that stops":          {true, 1, append([]byte{22, 3, 1, 64, 0, 1, 0, 255, 0}, make([]byte, 16000)...)},
	} {
		t.Run(name, func(t *testing.T) {
			address, scheme := serve(t, tc.secure, accept), "http"
			if tc.secure {
				scheme = "https"
			}
			flood(t, address, connections, tc.addresses, tc.data)
			// The kubelet waits as long for an answer: see the probes of the chart.
			client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			}}
			for range 10 {
				answer, err := client.Get(scheme + "://" + address + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
			}
			if size := heap(); size > limit {
				t.Errorf("the heap has %d MiB, want at most %d", size>>20, limit>>20)
			}
		})
	}
}

func TestARequestGoesOnDuringAFloodOfOtherAddresses(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	address := serve(t, false, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-release
		}
	})
	result := make(chan error, 1)
	go func() {
		answer, err := http.Get("http://" + address + "/slow")
		if err == nil {
			err = answer.Body.Close()
		}
		result <- err
	}()
	<-arrived
	flood(t, address, 1000, 8, []byte("GET"))
	close(release)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestHeadersThatStopEndTheConnection(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, false, accept))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil {
		t.Errorf("got %q, %v, want the end", answer, err)
	}
}

func TestALongTokenFitsIntoTheHeaders(t *testing.T) {
	address := serve(t, false, accept)
	for size, want := range map[int]int{16 << 10: http.StatusOK, 32 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.Repeat("a", size))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a token of %d bytes: got %d, want %d", size, answer.StatusCode, want)
		}
	}
}

func TestOneConnectionHasOneRequestAtATime(t *testing.T) {
	address := serve(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	answer, err := client.Get("https://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "HTTP/1.1" {
		t.Errorf("got %s %v, want HTTP/1.1", body, err)
	}
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	address := serve(t, false, accept)
	_, err := endpoint.New(t.Context(), "health", address, false, http.NotFoundHandler())
	if want := fmt.Sprintf("listen for health: listen tcp %s: bind: address already in use", address); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
