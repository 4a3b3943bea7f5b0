package dialguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The name of RFC 7050 has no IPv6 address, unless the network translates IPv6 to IPv4. It
// then has these IPv4 addresses behind the network's prefixes.
const nat64Name = "ipv4only.arpa."

var nat64Addresses = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}

// nat64Bits are the lengths that a prefix can have (RFC 6052, 2.2).
var nat64Bits = []int{32, 40, 48, 56, 64, 96}

// Limits of the search for prefixes.
const (
	nat64Valid   = time.Hour
	nat64Retry   = time.Minute
	nat64Timeout = 2 * time.Second
	nat64Max     = 16
)

// nat64 knows the prefixes by which the network translates IPv6 to IPv4. An address with
// such a prefix reaches the IPv4 address in it.
type nat64 struct {
	resolver *net.Resolver
	clock    clock.PassiveClock

	mu       sync.Mutex
	prefixes []netip.Prefix
	// err is the error of the search if none has succeeded yet.
	err error
	// next is the time of the next search.
	next time.Time
	// searching is closed when the present search ends. It is nil if there is none.
	searching chan struct{}
}

func newNAT64(clk clock.PassiveClock, resolver *net.Resolver) *nat64 {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &nat64{resolver: resolver, clock: clk}
}

// destinations returns the IPv4 addresses that an address reaches by translation. If no
// search has succeeded yet, it waits for the present one: for 2 seconds at most, and not
// longer than ctx. Otherwise, it uses the known prefixes during a search.
func (n *nat64) destinations(ctx context.Context, addr netip.Addr) ([]netip.Addr, error) {
	if addr.Is4() || !addr.IsGlobalUnicast() {
		return nil, nil
	}
	if search := n.startSearch(ctx); search != nil {
		select {
		case <-search:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []netip.Addr
	for _, p := range n.prefixes {
		if p.Contains(addr) {
			all = append(all, embedded(addr, p.Bits()))
		}
	}
	return all, n.err
}

// startSearch starts a search if it is time for one. It returns nil unless the caller must
// wait for a search.
func (n *nat64) startSearch(ctx context.Context) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.clock.Now(); n.searching == nil && !now.Before(n.next) {
		n.searching = make(chan struct{})
		// The end of one request must not be a failure for all.
		go n.search(context.WithoutCancel(ctx), now, n.searching)
	}
	if n.prefixes != nil {
		return nil
	}
	return n.searching
}

// search looks the prefixes up. If this fails, it keeps those that it knows.
func (n *nat64) search(ctx context.Context, now time.Time, done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(ctx, nat64Timeout)
	defer cancel()
	found, err := n.resolver.LookupNetIP(ctx, "ip6", nat64Name)
	if dnsError, isDNS := errors.AsType[*net.DNSError](err); isDNS && dnsError.IsNotFound {
		err = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.searching = nil
	if err != nil {
		n.next = now.Add(nat64Retry)
		if n.prefixes == nil {
			n.err = err
		}
		return
	}
	n.next, n.err = now.Add(nat64Valid), nil
	n.prefixes = prefixesOf(found[:min(len(found), nat64Max)])
}

// prefixesOf returns the prefixes in the addresses of nat64Name. The result is not nil.
func prefixesOf(addresses []netip.Addr) []netip.Prefix {
	all := []netip.Prefix{}
	for _, addr := range addresses {
		for _, bits := range nat64Bits {
			if !addr.Is4In6() && slices.Contains(nat64Addresses, embedded(addr, bits)) {
				all = append(all, netip.PrefixFrom(addr, bits).Masked())
			}
		}
	}
	return all
}

// embedded returns the IPv4 address after a prefix of this length. Byte 8 is not a part of
// it (RFC 6052, 2.2).
func embedded(addr netip.Addr, bits int) netip.Addr {
	bytes := addr.As16()
	var v4 []byte
	for i := bits / 8; len(v4) < 4; i++ {
		if i != 8 {
			v4 = append(v4, bytes[i])
		}
	}
	return netip.AddrFrom4([4]byte(v4))
}
