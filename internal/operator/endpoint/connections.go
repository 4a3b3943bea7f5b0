package endpoint

import (
	"net"
	"slices"
	"sync"
)

// connections is a listener with a limit of open connections. It always accepts a new one. If there
// are too many then, it closes the oldest of the address that has the most. One address can
// therefore not keep others out, and many addresses have equal shares.
type connections struct {
	net.Listener
	limit int

	mu sync.Mutex
	// open contains the connections, the oldest first.
	open []*connection
}

// connection is an accepted connection.
type connection struct {
	net.Conn
	of   *connections
	host string
}

// limitConnections returns a listener that has at most limit open connections.
func limitConnections(l net.Listener, limit int) net.Listener {
	return &connections{Listener: l, limit: limit}
}

// Accept waits for the next connection.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, of: l, host: host(conn.RemoteAddr())}
	if excess := l.add(c); excess != nil {
		_ = excess.Close()
	}
	return c, nil
}

// Close closes the connection. It can be called again.
func (c *connection) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// add adds a connection, and returns the one to close if there are too many.
func (l *connections) add(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= l.limit {
		return nil
	}
	return l.oldestOfBusiest()
}

// oldestOfBusiest returns the oldest connection of the address that has the most. The caller holds l.mu.
func (l *connections) oldestOfBusiest() *connection {
	count, most := map[string]int{}, 0
	for _, c := range l.open {
		count[c.host]++
		most = max(most, count[c.host])
	}
	return l.open[slices.IndexFunc(l.open, func(c *connection) bool { return count[c.host] == most })]
}

func (l *connections) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(other *connection) bool { return other == c })
}

// host returns an address without its port.
func host(address net.Addr) string {
	name, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return name
}
