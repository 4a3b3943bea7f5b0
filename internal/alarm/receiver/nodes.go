package receiver

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// rangesField is the index of Nodes by their ranges of addresses.
const rangesField = "ranges"

// A kubelet writes the addresses of its Node, and the range of its pods if this is empty. A
// compromised one can have receivers refused whose addresses it claims. These limits keep it
// from having all refused.
const (
	maxAddresses = 32
	minBits4     = 16
	minBits6     = 48
)

// networkBits is the length of the network that an IPv6 address belongs to (RFC 4291,
// 2.5.4). Some clouds give pods addresses of their Node's network without a range in the
// Node (https://docs.aws.amazon.com/eks/latest/best-practices/ipv6.html). Smaller ranges
// count as their network, so that a look-up asks for few lengths.
const networkBits = 64

// Nodes finds Nodes by address in a cache. It implements dialguard.Nodes.
type Nodes struct{ cache client.Reader }

var _ dialguard.Nodes = (*Nodes)(nil)

// NewNodes returns Nodes that read the cache, and adds the index to it that they need.
func NewNodes(ctx context.Context, cache client.Reader, indexer client.FieldIndexer) (*Nodes, error) {
	err := indexer.IndexField(ctx, &corev1.Node{}, rangesField, func(o client.Object) []string {
		var keys []string
		for _, p := range rangesOf(o.(*corev1.Node)) {
			keys = append(keys, p.String())
		}
		return keys
	})
	return &Nodes{cache: cache}, err
}

// Range returns the smallest range of any Node that contains the address.
func (n *Nodes) Range(ctx context.Context, addr netip.Addr) (netip.Prefix, error) {
	for _, bits := range lengths(addr) {
		found, err := addr.Prefix(bits)
		if err != nil {
			return netip.Prefix{}, err
		}
		var nodes corev1.NodeList
		err = n.cache.List(ctx, &nodes, client.MatchingFields{rangesField: found.String()}, client.Limit(1), client.UnsafeDisableDeepCopy)
		if err != nil || len(nodes.Items) > 0 {
			return found, err
		}
	}
	return netip.Prefix{}, nil
}

// lengths returns the lengths that a range with this address can have, the longest first.
func lengths(addr netip.Addr) []int {
	all, longest := []int{addr.BitLen()}, addr.BitLen()-1
	if addr.Is6() {
		longest = networkBits
	}
	for bits := longest; bits >= minBits(addr); bits-- {
		all = append(all, bits)
	}
	return all
}

// rangesOf returns the addresses of a Node, the networks of its global IPv6 addresses, and
// the ranges of its pods.
func rangesOf(node *corev1.Node) []netip.Prefix {
	var all []netip.Prefix
	addresses := node.Status.Addresses
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		addr, err := netip.ParseAddr(a.Address)
		if err != nil {
			continue // a name
		}
		addr = addr.Unmap().WithZone("")
		all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		if addr.Is6() && addr.IsGlobalUnicast() {
			all = append(all, netip.PrefixFrom(addr, networkBits).Masked())
		}
	}
	for _, cidr := range node.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(cidr)
		if err != nil || p.Bits() < minBits(p.Addr()) {
			continue
		}
		if p.Addr().Is6() {
			p = netip.PrefixFrom(p.Addr(), min(p.Bits(), networkBits))
		}
		all = append(all, p.Masked())
	}
	return all
}

func minBits(addr netip.Addr) int {
	if addr.Is4() {
		return minBits4
	}
	return minBits6
}
