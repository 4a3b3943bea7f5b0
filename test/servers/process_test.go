package servers

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// start starts a server, and waits until it answers a path with 200. The server ends with the
// test.
func start(t *testing.T, ready string, environment []string, command func(host, port string) []string) (address string) {
	t.Helper()
	address, _, ended := startProcess(t, environment, command)
	awaitAnswer(t, "http://"+address+ready, ended)
	return address
}

// startProcess starts a server, which ends with the test.
func startProcess(t *testing.T, environment []string, command func(host, port string) []string) (address string, _ *os.Process, _ <-chan struct{}) {
	t.Helper()
	address = freeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	args := command(host, port)
	home := t.TempDir()
	var output cluster.Buffer
	process := exec.CommandContext(t.Context(), args[0], args[1:]...)
	process.Dir, process.Stdout, process.Stderr = home, &output, &output
	process.Env = append(os.Environ(), append(environment, "HOME="+home, "SHELL=/bin/sh")...)
	process.WaitDelay = time.Second // the shells of terminals keep the output open
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the output of %s:\n%s", filepath.Base(args[0]), output.String())
		}
	})
	return address, process.Process, ended
}

func awaitAnswer(t *testing.T, url string, ended <-chan struct{}) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; {
		if status, _ := request(t, http.MethodGet, url, ""); status == http.StatusOK {
			return
		}
		select {
		case <-ended:
			t.Fatal("the server has ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("no answer to %s in %v", url, patience)
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// browser sends requests. It shows redirects as they are.
var browser = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// request sends a request as a browser does. status is 0 if there is no answer.
func request(t *testing.T, method, url, authorization string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	response, err := browser.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}
