package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
)

// pods are the servers that play those in pods: nothing listens at the address of a
// simulated pod.
type pods struct {
	mu      sync.Mutex
	servers map[string]string
	last    int
}

// ServePod has a server play what listens in a pod, on whichever port, and returns an
// IP address that the pod should be given. The operators of the cluster are its
// clients.
func (c *Cluster) ServePod(t testing.TB, server string) (ip string) {
	t.Helper()
	c.pods.mu.Lock()
	defer c.pods.mu.Unlock()
	if c.pods.servers == nil {
		c.pods.servers = map[string]string{}
	}
	c.pods.last++
	ip = fmt.Sprintf("192.0.2.%d", c.pods.last) // TEST-NET-1: nobody else's
	c.pods.servers[ip] = server
	return ip
}

// dialPod connects to what plays a pod; others refuse the connection.
func (c *Cluster) dialPod(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c.pods.mu.Lock()
	server, ok := c.pods.servers[host]
	c.pods.mu.Unlock()
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	return new(net.Dialer).DialContext(ctx, network, server)
}
