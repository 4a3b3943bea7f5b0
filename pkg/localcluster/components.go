package localcluster

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Networks of a cluster. They are not routed.
const (
	serviceNetwork = "10.96.0.0/16"
	serviceIP      = "10.96.0.1" // of the Service kubernetes
	podNetwork     = "10.128.0.0/10"
)

// args returns the command line of a component with its present ports.
func (c *Cluster) args(component Component) []string {
	switch component {
	case Etcd:
		return c.etcdArgs()
	case APIServer:
		return c.apiServerArgs()
	case ControllerManager:
		return c.controllerManagerArgs()
	case Scheduler:
		return c.schedulerArgs()
	default:
		return c.kwokArgs()
	}
}

func (c *Cluster) etcdArgs() []string {
	args := flags{
		"data-dir":                    c.dir.etcdData(),
		"listen-client-urls":          c.ports.url(Etcd),
		"advertise-client-urls":       c.ports.url(Etcd),
		"listen-peer-urls":            c.ports.url(etcdPeer),
		"initial-advertise-peer-urls": c.ports.url(etcdPeer),
		"initial-cluster":             "default=" + c.ports.url(etcdPeer),
		"cert-file":                   c.pki.cert(etcdServerCert),
		"key-file":                    c.pki.key(etcdServerCert),
		"trusted-ca-file":             c.pki.cert(etcdCA),
		"client-cert-auth":            "true",
		"peer-cert-file":              c.pki.cert(etcdServerCert),
		"peer-key-file":               c.pki.key(etcdServerCert),
		"peer-trusted-ca-file":        c.pki.cert(etcdCA),
		"peer-client-cert-auth":       "true",
		"log-level":                   "warn",
	}
	if c.config.UnsafeNoFsync {
		args["unsafe-no-fsync"] = "true"
	}
	return args.list()
}

func (c *Cluster) apiServerArgs() []string {
	args := flags{
		"bind-address":      loopback,
		"secure-port":       strconv.Itoa(c.ports.of(APIServer)),
		"advertise-address": loopback,
		// The endpoints of a Service must not contain a loopback address, and no pod
		// could reach it.
		"endpoint-reconciler-type": "none",
		"service-cluster-ip-range": serviceNetwork,

		"etcd-servers":  c.ports.url(Etcd),
		"etcd-cafile":   c.pki.cert(etcdCA),
		"etcd-certfile": c.pki.cert(etcdClientCert),
		"etcd-keyfile":  c.pki.key(etcdClientCert),

		"cert-dir":                         c.dir.pki(""),
		"tls-cert-file":                    c.pki.cert(serverCert),
		"tls-private-key-file":             c.pki.key(serverCert),
		"client-ca-file":                   c.pki.cert(clusterCA),
		"kubelet-client-certificate":       c.pki.cert(kubeletClientCert),
		"kubelet-client-key":               c.pki.key(kubeletClientCert),
		"kubelet-preferred-address-types":  "InternalIP",
		"service-account-issuer":           "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":         c.dir.pki(serviceAccountKey),
		"service-account-signing-key-file": c.dir.pki(serviceAccountKey),
		"authorization-mode":               "Node,RBAC", // the default allows everything

		"event-ttl":           c.config.EventTTL.String(),
		"audit-policy-file":   c.dir.auditPolicy(),
		"audit-log-path":      c.dir.auditLog(),
		"audit-log-maxsize":   "64", // MiB
		"audit-log-maxbackup": "2",
		"profiling":           "false",
	}
	if c.config.NodeAddress != "" {
		args["bind-address"] = "0.0.0.0"
		args["advertise-address"] = c.config.NodeAddress
		args["endpoint-reconciler-type"] = "lease"
	}
	return args.list()
}

func (c *Cluster) controllerManagerArgs() []string {
	return c.serving(ControllerManager, flags{
		"kubeconfig":                       c.kubeconfigOf(controllerManagerCert),
		"authentication-kubeconfig":        c.kubeconfigOf(controllerManagerCert),
		"authorization-kubeconfig":         c.kubeconfigOf(controllerManagerCert),
		"leader-elect":                     "false",
		"use-service-account-credentials":  "true",
		"service-account-private-key-file": c.dir.pki(serviceAccountKey),
		"root-ca-file":                     c.pki.cert(clusterCA),
		"cluster-signing-cert-file":        c.pki.cert(clusterCA),
		"cluster-signing-key-file":         c.pki.key(clusterCA),
		"service-cluster-ip-range":         serviceNetwork,
		// The controller manager creates this directory, by default below /usr.
		"flex-volume-plugin-dir": c.dir.path("tmp", "flexvolume"),
		// Shorter than the defaults, because users and tests wait for the results.
		"horizontal-pod-autoscaler-sync-period": "5s",
		"node-monitor-period":                   "2s",
		"kube-api-qps":                          "200",
		"kube-api-burst":                        "400",
		"profiling":                             "false",
	})
}

func (c *Cluster) schedulerArgs() []string {
	return c.serving(Scheduler, flags{
		"kubeconfig":                c.kubeconfigOf(schedulerCert),
		"authentication-kubeconfig": c.kubeconfigOf(schedulerCert),
		"authorization-kubeconfig":  c.kubeconfigOf(schedulerCert),
		"leader-elect":              "false",
		"profiling":                 "false",
	})
}

// serving adds the flags of a component's health endpoint.
func (c *Cluster) serving(component Component, f flags) []string {
	f["bind-address"] = loopback
	f["secure-port"] = strconv.Itoa(c.ports.of(component))
	f["tls-cert-file"] = c.pki.cert(serverCert)
	f["tls-private-key-file"] = c.pki.key(serverCert)
	return f.list()
}

func (c *Cluster) kwokArgs() []string {
	return flags{
		"kubeconfig": c.kubeconfigOf(kwokCert),
		"config":     c.dir.stages(),
		// KWOK's selectors of managed nodes match no node without labels, or without annotations.
		"manage-all-nodes":                     "true",
		"disregard-status-with-label-selector": Simulate + "=" + SimulateNone,
		"node-lease-duration-seconds":          strconv.Itoa(int(c.config.NodeLease / time.Second)),
		"node-ip":                              loopback,
		"node-port":                            strconv.Itoa(c.kubeletPort()),
		"cidr":                                 podNetwork,
		"server-address":                       c.ports.address(Kwok),
		"tls-cert-file":                        c.pki.cert(serverCert),
		"tls-private-key-file":                 c.pki.key(serverCert),
		"v":                                    "WARN",
	}.list()
}

// flags are the flags of a command line, by name.
type flags map[string]string

func (f flags) list() []string {
	args := make([]string, 0, len(f))
	for name, value := range f {
		args = append(args, "--"+name+"="+value)
	}
	slices.Sort(args)
	return args
}

// etcdPeer is etcd's peer port. etcd requires it even for a single member.
const etcdPeer Component = "etcd-peer"

// ports are the loopback ports of a cluster. They are stored in its directory, so that a
// restarted cluster keeps its address, unless another process uses the port.
type ports struct {
	mu     sync.Mutex
	number map[Component]int
	// claims keep other clusters from using the ports, also while a component is down. The
	// claim of a TCP port is the UDP port of the same number, which no component uses. It
	// ends with the process.
	claims map[Component]net.PacketConn
}

// The range of ports. The kernel assigns those above to outgoing connections.
const firstPort, lastPort = 20_000, 31_999

// loadPorts reads the stored ports, if any.
func loadPorts(dir layout) *ports {
	p := &ports{number: map[Component]int{}, claims: map[Component]net.PacketConn{}}
	data, err := os.ReadFile(dir.ports())
	if err != nil || json.Unmarshal(data, &p.number) != nil {
		p.number = map[Component]int{}
	}
	return p
}

// ensure assigns a free port to each component that has none or whose port is in use, and
// stores the ports.
func (p *ports) ensure(dir layout, components ...Component) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range components {
		if err := p.assign(c); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(p.number, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(dir.ports(), data, 0o600)
}

// assign keeps the port of a component, or else chooses one at random: clusters that start
// at once rarely try the same.
func (p *ports) assign(c Component) error {
	if p.claim(c, p.number[c]) {
		return nil
	}
	const count = lastPort - firstPort + 1
	start := rand.IntN(count)
	for i := range count {
		if p.claim(c, firstPort+(start+i)%count) {
			return nil
		}
	}
	return fmt.Errorf("find a port for %s: all from %d to %d are in use", c, firstPort, lastPort)
}

// claim reports whether the component owns a port, and no process uses it.
func (p *ports) claim(c Component, port int) bool {
	if port == 0 {
		return false
	}
	claim := p.claims[c]
	if claim == nil || port != p.number[c] {
		var err error
		if claim, err = net.ListenPacket("udp", net.JoinHostPort(loopback, strconv.Itoa(port))); err != nil {
			return false
		}
	}
	l, err := listen(port)
	if err != nil {
		_ = claim.Close()
		delete(p.claims, c)
		return false
	}
	_ = l.Close()
	p.number[c], p.claims[c] = port, claim
	return true
}

// release ends the claims. The numbers stay.
func (p *ports) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, claim := range p.claims {
		_ = claim.Close()
	}
	clear(p.claims)
}

// inUse reports whether a process listens on one of the components' ports.
func (p *ports) inUse(components ...Component) bool {
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
