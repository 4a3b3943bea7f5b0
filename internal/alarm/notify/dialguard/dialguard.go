// Package dialguard protects the cluster's own network from the URLs that tenants
// configure. It refuses connections to loopback, link-local, private, shared and other
// special addresses, in all their forms. An administrator can allow ranges.
//
// It checks the address after name resolution, when the connection is made. DNS names
// and redirects therefore cannot bypass it. Do not use it with a proxy, because the proxy
// would make the connection instead.
package dialguard

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// ErrNotAllowed is the error for forbidden addresses. It does not contain the address,
// because the tenant may not know it.
var ErrNotAllowed = errors.New("address not allowed")

// nat64 is the well-known prefix of RFC 6052. The last 32 bits of such an address are
// the IPv4 address of the destination.
var nat64 = ssrf.IPv6NAT64Prefix

// Guard checks addresses. It is safe for concurrent use.
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

// Control is the Control function for a net.Dialer.
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

// Check returns ErrNotAllowed if the address is forbidden.
func (g *Guard) Check(addr netip.Addr) error {
	if g.guardian.SafeAddr(destination(addr)) != nil {
		return ErrNotAllowed
	}
	return nil
}

// destination returns the IPv4 address within an IPv4-mapped or NAT64 address. It
// returns other addresses without their zone.
func destination(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !nat64.Contains(addr) {
		return addr
	}
	bytes := addr.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// unmapPrefix converts a range of IPv4-mapped addresses to the IPv4 range.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mappedBits = 96
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}
