package localcluster

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// An answer without a delay does not close the connection before the client has read it.
func TestAnAnswerReachesEveryClient(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]*ExecAnswer{"output": {Output: "ok"}, "nothing to say": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(answer.serve))
			t.Cleanup(server.Close)
			address, err := url.Parse(server.URL + "/?output=1&error=1")
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: server.URL}, http.MethodPost, address)
				if err != nil {
					t.Fatal(err)
				}
				var out, errs bytes.Buffer
				err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
				if err != nil || out.String() != answer.Output {
					t.Fatalf("output %q, error %v", &out, err)
				}
			}
		})
	}
}
