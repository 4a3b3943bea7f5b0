package healthcheck_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

func ExampleChecker_Run() {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no connection to the database", http.StatusServiceUnavailable)
	}))
	defer pod.Close()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { // the default connects to the address of the pod
		return new(net.Dialer).DialContext(ctx, "tcp", pod.Listener.Addr().String())
	}
	checker, err := healthcheck.New(clock.RealClock{}, &rest.Config{}, nil, dial)
	if err != nil {
		fmt.Println(err)
		return
	}
	o := checker.Run(context.Background(), healthcheck.Check{
		Namespace: "shop", Pod: "web-0", Timeout: 5 * time.Second,
		HTTP: &healthcheck.HTTP{IP: "192.0.2.7", Port: 8080, Path: "/healthz"},
	})
	fmt.Println(o.Outcome, o.Message)
	// Output: Failed answered 503 Service Unavailable: no connection to the database
}
