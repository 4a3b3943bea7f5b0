// Package dialguard protects the cluster's own network from the URLs that tenants
// configure. It refuses connections to loopback, link-local, private, shared and other
// special addresses, in all their forms. It also refuses addresses within clouds, and those
// of the cluster's Nodes and pods. An administrator can allow or deny ranges and hosts.
//
// It checks the address after name resolution, when the connection is made. DNS names
// and redirects therefore cannot bypass it. A proxy would make the connection instead: ask it to
// connect to an address of [Guard.Resolve], and not to a name.
//
// Its errors do not show whether a name exists: a tenant could otherwise ask for the names
// of an internal network.
package dialguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"code.dny.dev/ssrf"
	"k8s.io/utils/clock"
)

var (
	// ErrNotAllowed is the error for a forbidden host or address, and for a name that does
	// not exist. It does not contain the address, because the tenant may not know it.
	ErrNotAllowed = errors.New("host does not exist or is not allowed")
	// ErrNotChecked is the error if it is not known whether an address is allowed. A retry
	// can help. Only addresses that are allowed otherwise can have it.
	ErrNotChecked = errors.New("address could not be checked")
)

// nat64WellKnown is the well-known prefix of RFC 6052. The last 32 bits of such an address
// are the IPv4 address of the destination.
var nat64WellKnown = ssrf.IPv6NAT64Prefix

// cloud are addresses within clouds that are not in the registries of special addresses.
var cloud = []netip.Prefix{
	// The services of a virtual machine's host
	// (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16).
	netip.MustParsePrefix("168.63.129.16/32"),
	// IBM services and Cloud Service Endpoints, which the API of IBM Cloud VPC reserves
	// (https://cloud.ibm.com/apidocs/vpc).
	netip.MustParsePrefix("161.26.0.0/16"),
	netip.MustParsePrefix("166.8.0.0/14"),
}

// Nodes knows the addresses of the cluster.
type Nodes interface {
	// Range returns a range of a Node that contains the address, or the zero Prefix. A
	// Node's own address is a range of one address, and is preferred.
	Range(ctx context.Context, addr netip.Addr) (netip.Prefix, error)
}

// Config of a Guard.
type Config struct {
	// Allowed are ranges that are allowed although they are special, within a cloud, or of
	// pods. An IPv4 range also allows its IPv4-mapped and NAT64 forms. A Node's own address
	// must be allowed by itself.
	Allowed []netip.Prefix
	// Denied are ranges that are never allowed.
	Denied []netip.Prefix
	// Hosts are the hosts that are allowed: names, addresses, or patterns such as
	// *.example.com. Their addresses must be allowed too. Empty: all.
	Hosts []string
	// Nodes are the addresses of the cluster's Nodes. Nil: the guard does not know them.
	Nodes Nodes
	// Resolver finds the network's NAT64 prefixes; nil is the system's.
	Resolver *net.Resolver
}

// Guard checks hosts and addresses. It is safe for concurrent use.
type Guard struct {
	allowed, denied []netip.Prefix
	hosts           []string
	nodes           Nodes
	nat64           *nat64
	guardian        *ssrf.Guardian
}

// New returns a Guard. The clock limits how often it looks for NAT64 prefixes.
func New(clk clock.PassiveClock, c Config) *Guard {
	g := &Guard{
		allowed: canonical(c.Allowed), denied: canonical(c.Denied),
		nodes: c.Nodes, nat64: newNAT64(clk, c.Resolver),
	}
	for _, host := range c.Hosts {
		host, _ = canonicalHost(host)
		g.hosts = append(g.hosts, host)
	}
	var v4, v6 []netip.Prefix
	for _, p := range g.allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	g.guardian = ssrf.New(
		ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(cloud...),
	)
	return g
}

// DialFunc connects to an address, like the DialContext of net.Dialer.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a DialFunc that connects like the dialer, but to allowed hosts and addresses
// only.
func (g *Guard) Dial(dialer *net.Dialer) DialFunc {
	guarded := *dialer
	guarded.ControlContext = g.control
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || g.CheckHost(host) != nil {
			return nil, ErrNotAllowed
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		a := &attempts{cancel: cancel}
		conn, err := guarded.DialContext(context.WithValue(ctx, attemptsKey{}, a), network, address)
		return conn, conceal(a.explain(err))
	}
}

// maxAddresses is the number of addresses of a host that are tried. A name server can return
// thousands, and a tenant can have one.
const maxAddresses = 16

// attemptsKey is the key of the attempts of a connection in its context.
type attemptsKey struct{}

// attempts are the addresses of a host that were tried for one connection.
type attempts struct {
	cancel context.CancelFunc

	mu    sync.Mutex
	made  int
	first error
}

// next reports whether another address can be tried. Otherwise, it ends the connection.
func (a *attempts) next() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made++; a.made > maxAddresses {
		a.cancel()
	}
	return a.made <= maxAddresses
}

// checked records the result of the check of an address.
func (a *attempts) checked(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made == 1 {
		a.first = err
	}
	return err
}

// explain returns another error if there were too many addresses. As without this limit, it is that
// of the first address.
func (a *attempts) explain(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil || a.made <= maxAddresses:
		return err
	case a.first != nil:
		return a.first
	default:
		return fmt.Errorf("connect to the first %d addresses: %w", maxAddresses, syscall.EHOSTUNREACH)
	}
}

// Resolve returns an allowed address of an allowed host, for a proxy. It prefers IPv4. A nil
// resolver is the system's.
func (g *Guard) Resolve(ctx context.Context, resolver *net.Resolver, host string) (netip.Addr, error) {
	if g.CheckHost(host) != nil {
		return netip.Addr{}, ErrNotAllowed
	}
	addrs, err := cmp.Or(resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, conceal(err)
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return plain(a).BitLen() - plain(b).BitLen() })
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		if err = g.verify(ctx, addr); err == nil {
			return plain(addr), nil
		}
	}
	return netip.Addr{}, cmp.Or(err, ErrNotAllowed)
}

// conceal returns the same error for a name that does not exist and for one that resolves
// to a forbidden address.
func conceal(err error) error {
	dnsError, isDNS := errors.AsType[*net.DNSError](err)
	if isDNS && dnsError.IsNotFound || errors.Is(err, ErrNotAllowed) {
		return ErrNotAllowed
	}
	return err
}

// control is the ControlContext function for a net.Dialer.
func (g *Guard) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return ErrNotAllowed
	}
	a, counted := ctx.Value(attemptsKey{}).(*attempts)
	switch {
	case !counted:
		return g.verify(ctx, addr.Addr())
	case !a.next():
		return ErrNotAllowed
	default:
		return a.checked(g.verify(ctx, addr.Addr()))
	}
}

// Check returns ErrNotAllowed if the address is forbidden, whatever Nodes and NAT64
// prefixes there are at present.
func (g *Guard) Check(addr netip.Addr) error {
	addr = plain(addr)
	to := destination(addr)
	if contains(g.denied, addr) || contains(g.denied, to) || g.guardian.SafeAddr(to) != nil {
		return ErrNotAllowed
	}
	return nil
}

// verify is Check with the present Nodes and NAT64 prefixes. It does not ask for these if
// Check fails, so that a failure to read them does not show whether a name exists.
func (g *Guard) verify(ctx context.Context, addr netip.Addr) error {
	if err := g.Check(addr); err != nil {
		return err
	}
	addr = destination(plain(addr))
	translated, err := g.nat64.destinations(ctx, addr)
	// A name server without the Internet may never answer. An allowed range must work then.
	if err != nil && !contains(g.allowed, addr) {
		return fmt.Errorf("%w: %w", ErrNotChecked, err)
	}
	for _, to := range append(translated, addr) {
		if err := g.Check(to); err != nil {
			return err
		}
		if err := g.checkNodes(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// checkNodes refuses addresses of Nodes and pods. A range that an administrator allows
// seldom means the Nodes in it, so their addresses must be allowed one by one.
func (g *Guard) checkNodes(ctx context.Context, addr netip.Addr) error {
	if g.nodes == nil {
		return nil
	}
	found, err := g.nodes.Range(ctx, addr)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotChecked, err)
	case !found.IsValid(), slices.Contains(g.allowed, found):
		return nil
	case found.IsSingleIP() || !contains(g.allowed, addr):
		return ErrNotAllowed
	}
	return nil
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// plain returns an address as IPv4 if it is IPv4-mapped, and without its zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// destination returns the IPv4 address within an address of the well-known NAT64 prefix, and
// other addresses as they are.
func destination(addr netip.Addr) netip.Addr {
	if nat64WellKnown.Contains(addr) {
		return embedded(addr, nat64WellKnown.Bits())
	}
	return addr
}

// canonical converts ranges of IPv4-mapped addresses to IPv4 ranges, and clears the bits
// that do not belong to a range.
func canonical(ranges []netip.Prefix) []netip.Prefix {
	const mappedBits = 96
	var all []netip.Prefix
	for _, p := range ranges {
		if p.Addr().Is4In6() && p.Bits() >= mappedBits {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
		}
		all = append(all, p.Masked())
	}
	return all
}

// CheckHost returns ErrNotAllowed if the administrator allows certain hosts, and this is
// none of them.
func (g *Guard) CheckHost(host string) error {
	host, isAddress := canonicalHost(host)
	allowed := func(pattern string) bool {
		suffix, isPattern := strings.CutPrefix(pattern, "*")
		return pattern == host || isPattern && !isAddress && strings.HasSuffix(host, suffix)
	}
	if len(g.hosts) == 0 || slices.ContainsFunc(g.hosts, allowed) {
		return nil
	}
	return ErrNotAllowed
}

// canonicalHost returns the one form of a host in which it is compared.
func canonicalHost(host string) (canonical string, isAddress bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return plain(addr).String(), true
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), false
}
