// Package dialguard keeps what tenants configure away from the cluster's own
// network: it refuses to connect to loopback, link-local, private, shared and
// other special addresses, in any of their forms, unless an administrator allows
// the range.
//
// It judges the address at the moment of dialling, after the name was resolved,
// so that neither a DNS name nor a redirect gets around it. It must not be used
// together with a proxy, which would dial in its place.
package dialguard

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// ErrNotAllowed says that an address may not be reached. It does not tell the
// address, which a tenant may not know.
var ErrNotAllowed = errors.New("address not allowed")

// nat64 is the well-known prefix of RFC 6052, whose last 32 bits are the IPv4
// address that is really reached.
var nat64 = ssrf.IPv6NAT64Prefix

// Guard judges addresses. It is safe for concurrent use.
type Guard struct {
	guardian *ssrf.Guardian
}

// New returns a Guard that allows public addresses and those in the given
// ranges. An IPv4 range also allows its IPv4-mapped and NAT64 forms.
func New(allowed ...netip.Prefix) *Guard {
	var v4, v6 []netip.Prefix
	for _, p := range allowed {
		if p = unmapPrefix(p); p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return &Guard{guardian: ssrf.New(
		ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
	)}
}

// Control is for the field of that name of a net.Dialer.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: not an IP address", ErrNotAllowed)
	}
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: not TCP", ErrNotAllowed)
	}
	return g.Check(addr.Addr())
}

// Check is nil or wraps ErrNotAllowed.
func (g *Guard) Check(addr netip.Addr) error {
	if g.guardian.SafeAddr(reached(addr)) != nil {
		return ErrNotAllowed
	}
	return nil
}

// reached is the address that a packet to addr ends at: the IPv4 address within
// an IPv4-mapped or NAT64 one.
func reached(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !nat64.Contains(addr) {
		return addr
	}
	bytes := addr.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// unmapPrefix turns a range of IPv4-mapped addresses into the IPv4 range.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mappedBits = 96
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}
