package localcluster

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// etcdPeer is etcd's second port. A single member talks to nobody there, but
// etcd insists on having it.
const etcdPeer Component = "etcd-peer"

// ports are the loopback ports of a cluster. They are remembered in its
// directory, so that a second start has the address that people and kubeconfigs
// know, unless somebody else has the port by then.
type ports struct {
	mu     sync.Mutex
	number map[Component]int
}

// loadPorts reads the remembered ports, if there are any.
func loadPorts(dir layout) *ports {
	p := &ports{number: map[Component]int{}}
	data, err := os.ReadFile(dir.ports())
	if err != nil || json.Unmarshal(data, &p.number) != nil {
		p.number = map[Component]int{}
	}
	return p
}

// ensure gives a free port to each component that has none, or whose port is
// taken, and remembers them. All are held until all are picked, so no two are
// the same.
func (p *ports) ensure(dir layout, components ...Component) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range components {
		l, err := listen(p.number[c])
		if err != nil {
			l, err = listen(0)
		}
		if err != nil {
			return fmt.Errorf("find a free port for %s: %w", c, err)
		}
		defer func() { _ = l.Close() }()
		p.number[c] = l.Addr().(*net.TCPAddr).Port
	}
	data, err := json.MarshalIndent(p.number, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(dir.ports(), data, 0o600)
}

// taken says whether somebody listens on one of the components' ports.
func (p *ports) taken(components ...Component) bool {
	for _, c := range components {
		l, err := listen(p.of(c))
		if err != nil {
			return true
		}
		_ = l.Close()
	}
	return false
}

func (p *ports) of(c Component) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number[c]
}

func (p *ports) address(c Component) string {
	return net.JoinHostPort(loopback, strconv.Itoa(p.of(c)))
}

func (p *ports) url(c Component) string {
	return "https://" + p.address(c)
}

const loopback = "127.0.0.1"

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
}
