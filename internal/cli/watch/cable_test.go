package watch_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// cable is what connects a client with an API server, and can be cut.
type cable struct {
	t            *testing.T
	near, server string

	mu       sync.Mutex
	listener net.Listener
	ends     []net.Conn
}

// connect returns a configuration that reaches the API server through a cable.
func connect(t *testing.T, config *rest.Config) (*rest.Config, *cable) {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, near: "127.0.0.1:0", server: server.Host}
	c.mend()
	t.Cleanup(c.cut)
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.near
	return config, c
}

// mend lets connections come up.
func (c *cable) mend() {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.near)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.near, c.listener = listener.Addr().String(), listener
	go c.serve(listener)
}

// cut ends every connection, and refuses new ones.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.listener.Close()
	for _, end := range c.ends {
		_ = end.Close()
	}
	c.ends = nil
}

func (c *cable) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		c.mu.Lock()
		c.ends = append(c.ends, near, far)
		c.mu.Unlock()
		go pipe(near, far)
		go pipe(far, near)
	}
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}
