package dialguard_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/testing/dns"
)

func newGuard(c dialguard.Config) *dialguard.Guard { return dialguard.New(clock.RealClock{}, c) }

func TestCheckRefusesEveryFormOfASpecialAddress(t *testing.T) {
	for name, addr := range map[string]string{
		"unspecified":              "0.0.0.0",
		"this network":             "0.1.2.3",
		"loopback":                 "127.0.0.1",
		"loopback, other":          "127.255.0.9",
		"private 10":               "10.96.0.1",
		"private 172":              "172.31.255.255",
		"private 192":              "192.168.1.1",
		"shared":                   "100.64.0.1",
		"shared, end":              "100.127.255.255",
		"link-local, metadata":     "169.254.169.254",
		"multicast":                "224.0.0.1",
		"reserved":                 "240.0.0.1",
		"broadcast":                "255.255.255.255",
		"protocol assignments":     "192.0.0.170",
		"benchmarking":             "198.18.0.1",
		"IPv6 unspecified":         "::",
		"IPv6 loopback":            "::1",
		"IPv6 unique local":        "fd00::1",
		"IPv6 metadata":            "fd00:ec2::254",
		"IPv6 link-local":          "fe80::1",
		"IPv6 link-local, zone":    "fe80::1%eth0",
		"IPv6 site-local":          "fec0::1",
		"IPv6 multicast":           "ff02::1",
		"IPv6 documentation":       "2001:db8::1",
		"IPv4-mapped loopback":     "::ffff:127.0.0.1",
		"IPv4-mapped private":      "::ffff:10.0.0.1",
		"IPv4-compatible loopback": "::127.0.0.1",
		"IPv4-translated private":  "::ffff:0:10.0.0.1",
		"NAT64 loopback":           "64:ff9b::7f00:1",
		"NAT64 private":            "64:ff9b::10.0.0.1",
		"NAT64 metadata":           "64:ff9b::169.254.169.254",
		"NAT64 local use":          "64:ff9b:1::10.0.0.1",
		"NAT64 local use, public":  "64:ff9b:1::8.8.8.8",
		"6to4 private":             "2002:a00:1::1",
		"6to4 public":              "2002:808:808::1",
		"Teredo":                   "2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"Azure, host":              "168.63.129.16",
		"Azure, host, IPv4-mapped": "::ffff:168.63.129.16",
		"Azure, host, NAT64":       "64:ff9b::a83f:8110",
		"Azure, host, 6to4":        "2002:a83f:8110::1",
		"Alibaba, metadata":        "100.100.100.200",
		"Oracle, metadata":         "192.0.0.192",
		"Google, metadata":         "fd20:ce::254",
		"IBM, services":            "161.26.0.10",
		"IBM, endpoints":           "166.9.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			if err := newGuard(dialguard.Config{}).Check(netip.MustParseAddr(addr)); !errors.Is(err, dialguard.ErrNotAllowed) {
				t.Errorf("Check(%s) = %v, want ErrNotAllowed", addr, err)
			}
		})
	}
}

func TestCheckAllowsPublicAddresses(t *testing.T) {
	for _, addr := range []string{"8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::6810:84e5", "100.128.0.1", "172.32.0.1", "168.63.129.17"} {
		if err := newGuard(dialguard.Config{}).Check(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("Check(%s) = %v", addr, err)
		}
	}
}

func TestCheckAllowsTheAdministratorsRangesOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed string
		addr    string
		want    bool
	}{
		"in an IPv4 range":                   {"10.0.0.0/8", "10.1.2.3", true},
		"its IPv4-mapped form":               {"10.0.0.0/8", "::ffff:10.1.2.3", true},
		"its NAT64 form":                     {"10.0.0.0/8", "64:ff9b::10.1.2.3", true},
		"beside it":                          {"10.0.0.0/8", "11.0.0.1", true}, // public anyway
		"another private one":                {"10.0.0.0/8", "192.168.0.1", false},
		"a single address":                   {"127.0.0.1/32", "127.0.0.1", true},
		"beside a single address":            {"127.0.0.1/32", "127.0.0.2", false},
		"an IPv4-mapped range":               {"::ffff:10.0.0.0/104", "10.1.2.3", true},
		"in an IPv6 range":                   {"fd00::/8", "fd00::1", true},
		"beside an IPv6 range":               {"fd00::/16", "fd01::1", false},
		"private by NAT64, its prefix":       {"64:ff9b::/96", "64:ff9b::10.0.0.1", false},
		"private by NAT64, all IPv6":         {"::/0", "64:ff9b::10.0.0.1", false},
		"IPv4-mapped private, all IPv6":      {"::/0", "::ffff:10.0.0.1", false},
		"NAT64 of local use, its own prefix": {"64:ff9b:1::/48", "64:ff9b:1::10.0.0.1", true},
		"link-local with a zone, in a range": {"fe80::/10", "fe80::1%lo", true},
		"within a cloud":                     {"168.63.129.16/32", "168.63.129.16", true},
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(dialguard.Config{Allowed: ranges(tc.allowed)})
			if err := guard.Check(netip.MustParseAddr(tc.addr)); (err == nil) != tc.want {
				t.Errorf("allowing %s, Check(%s) = %v, want allowed %t", tc.allowed, tc.addr, err, tc.want)
			}
		})
	}
}

func TestDeniedRangesAreRefusedInEveryFormAndBeforeAllowedOnes(t *testing.T) {
	guard := newGuard(dialguard.Config{
		Allowed: ranges("10.0.0.0/8", "fd00::/8"), Denied: ranges("10.1.0.0/16", "203.0.0.0/8", "2600::/16", "64:ff9b::808:0/112"),
	})
	for addr, want := range map[string]bool{
		"10.2.0.1": true, "10.1.0.1": false, "::ffff:10.1.0.1": false, "64:ff9b::10.1.0.1": false, "64:ff9b::10.2.0.1": true,
		"203.0.1.1": false, "64:ff9b::203.0.1.1": false, "2600::1": false, "2601::1": true, "64:ff9b::8.8.8.8": false, "8.8.8.8": true,
	} {
		if err := guard.Check(netip.MustParseAddr(addr)); (err == nil) != want {
			t.Errorf("Check(%s) = %v, want allowed %t", addr, err, want)
		}
	}
}

func TestOnlyAllowedHostsAreAllowed(t *testing.T) {
	guard := newGuard(dialguard.Config{Hosts: []string{"Hooks.example.com", "*.example.org", "203.0.113.7", "2600::0:1"}})
	for host, want := range map[string]bool{
		"hooks.example.com": true, "HOOKS.EXAMPLE.COM.": true, "a.hooks.example.com": false, "hooks.example.com.evil.example": false,
		"example.org": false, "a.example.org": true, "a.b.example.org": true, "evilexample.org": false, "*.example.org": true,
		"203.0.113.7": true, "::ffff:203.0.113.7": true, "203.0.113.8": false, "2600::1": true, "2600::1%eth0": true, "": false,
	} {
		if err := guard.CheckHost(host); (err == nil) != want {
			t.Errorf("CheckHost(%q) = %v, want allowed %t", host, err, want)
		}
	}
	if err := newGuard(dialguard.Config{}).CheckHost("anything.example"); err != nil {
		t.Errorf("without a list: %v", err)
	}
}

func TestAHostThatIsNotAllowedIsNotResolved(t *testing.T) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was resolved")
		return nil, errors.New("no network")
	}}
	dial := newGuard(dialguard.Config{Hosts: []string{"a.example"}}).Dial(&net.Dialer{Resolver: resolver})
	if _, err := dial(t.Context(), "tcp", "b.example:443"); !errors.Is(err, dialguard.ErrNotAllowed) {
		t.Errorf("got %v, want ErrNotAllowed", err)
	}
}

func ranges(all ...string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, p := range all {
		prefixes = append(prefixes, netip.MustParsePrefix(p))
	}
	return prefixes
}

// nodes are the ranges of Nodes, or an error.
type nodes struct {
	ranges []netip.Prefix
	err    error
	asked  int
}

func (n *nodes) Range(_ context.Context, addr netip.Addr) (netip.Prefix, error) {
	n.asked++
	for _, p := range n.ranges {
		if p.Contains(addr) {
			return p, n.err
		}
	}
	return netip.Prefix{}, n.err
}

func TestNodesAndPodsAreRefusedAlsoWithGlobalAddresses(t *testing.T) {
	cluster := &nodes{ranges: ranges("203.1.0.1/32", "2600:1::1/128", "10.0.0.5/32", "10.0.0.6/32", "2600:1::/64", "11.1.0.0/24", "10.244.0.0/24")}
	guard := newGuard(dialguard.Config{
		Allowed: ranges("10.0.0.0/8", "10.0.0.6/32"), Nodes: cluster, Resolver: dns.NewResolver(t, nil),
	})
	for name, tc := range map[string]struct {
		addr string
		want bool
	}{
		"a Node":                                {"203.1.0.1", false},
		"a Node, IPv4-mapped":                   {"::ffff:203.1.0.1", false},
		"a Node, NAT64":                         {"64:ff9b::203.1.0.1", false},
		"beside a Node":                         {"203.1.0.2", true},
		"a Node's IPv6 address":                 {"2600:1::1", false},
		"in the network of a Node":              {"2600:1::2", false},
		"in another network":                    {"2600:1:0:1::2", true},
		"a pod":                                 {"11.1.0.9", false},
		"a Node in an allowed range":            {"10.0.0.5", false},
		"a Node whose own address is allowed":   {"10.0.0.6", true},
		"a pod in an allowed range":             {"10.244.0.9", true},
		"in an allowed range, not of the Nodes": {"10.96.0.1", true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr(tc.addr)); (err == nil) != tc.want {
				t.Errorf("%s: %v, want allowed %t", tc.addr, err, tc.want)
			}
		})
	}
}

// The error would show that a name exists whose address is forbidden anyway.
func TestAFailureToReadTheNodesIsReportedForAllowedAddressesOnly(t *testing.T) {
	cluster := &nodes{err: errors.New("cache not started")}
	guard := newGuard(dialguard.Config{Nodes: cluster})
	if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr("10.0.0.1")); !errors.Is(err, dialguard.ErrNotAllowed) || cluster.asked != 0 {
		t.Errorf("a private address: %v after %d reads", err, cluster.asked)
	}
	err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr("8.8.8.8"))
	if !errors.Is(err, dialguard.ErrNotChecked) || errors.Is(err, dialguard.ErrNotAllowed) {
		t.Errorf("a public address: %v, want ErrNotChecked", err)
	}
}

func TestPrefixesOfTheNetworkAreTranslated(t *testing.T) {
	for name, tc := range map[string]struct {
		answer, addr string
		want         bool
	}{
		"/96, private":              {"2600:64::c000:aa", "2600:64::10.0.0.1", false},
		"/96, metadata":             {"2600:64::c000:ab", "2600:64::169.254.169.254", false},
		"/96, within a cloud":       {"2600:64::c000:aa", "2600:64::168.63.129.16", false},
		"/96, Node":                 {"2600:64::c000:aa", "2600:64::203.1.0.1", false},
		"/96, public":               {"2600:64::c000:aa", "2600:64::8.8.8.8", true},
		"beside the prefix":         {"2600:64::c000:aa", "2600:65::10.0.0.1", true},
		"/64, private":              {"2600:64:0:0:c0:0:aa00:0", "2600:64::a:0:100:0", false},
		"/56, private":              {"2600:64:0:c0:0:aa::", "2600:64:0:a:0:1::", false},
		"/48, private":              {"2600:64:0:c000:0:aa00::", "2600:64:0:a00:0:100::", false},
		"/40, private":              {"2600:64:c0:0:aa::", "2600:64:a:0:1::", false},
		"/32, private":              {"2600:64:c000:aa::", "2600:64:a00:1::", false},
		"/32, public":               {"2600:64:c000:aa::", "2600:64:808:808::", true},
		"local use, allowed":        {"64:ff9b:1::c000:aa", "64:ff9b:1::8.8.8.8", true},
		"local use, private":        {"64:ff9b:1::c000:aa", "64:ff9b:1::10.0.0.1", false},
		"no address of the RFC":     {"2600:64::c000:ac", "2600:64::10.0.0.1", true},
		"no translation":            {"192.0.0.170", "2600:64::10.0.0.1", true},
		"unique local, not allowed": {"fd00::c000:aa", "fd00::8.8.8.8", false},
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(dialguard.Config{
				Allowed:  ranges("64:ff9b:1::/48"),
				Nodes:    &nodes{ranges: ranges("203.1.0.1/32")},
				Resolver: dns.NewResolver(t, map[string]string{"ipv4only.arpa": tc.answer}),
			})
			if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr(tc.addr)); (err == nil) != tc.want {
				t.Errorf("with ipv4only.arpa %s, %s: %v, want allowed %t", tc.answer, tc.addr, err, tc.want)
			}
		})
	}
}

func TestThePrefixesOfTheNetworkAreKeptWhileTheyCannotBeLookedUp(t *testing.T) {
	const translated = "2600:64::10.0.0.1"
	resolver := dns.NewResolver(t, map[string]string{"ipv4only.arpa": "2600:64::c000:aa"})
	var dialed atomic.Int64
	var fails atomic.Bool
	failed := make(chan struct{}, 100)
	working := resolver.Dial
	resolver.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		if fails.Load() {
			failed <- struct{}{}
			return nil, errors.New("no network")
		}
		return working(ctx, network, address)
	}
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	guard := dialguard.New(clk, dialguard.Config{Allowed: ranges("fd00::/8"), Resolver: resolver})
	verify := func(addr string) error {
		return dialguard.Verify(t.Context(), guard, netip.MustParseAddr(addr))
	}

	fails.Store(true)
	for range 3 {
		if err := verify("2600::1"); !errors.Is(err, dialguard.ErrNotChecked) {
			t.Errorf("before the first search succeeds: %v, want ErrNotChecked", err)
		}
	}
	for _, addr := range []string{"8.8.8.8", "fd00::1"} {
		if err := verify(addr); err != nil {
			t.Errorf("%s, which is IPv4 or in an allowed range: %v", addr, err)
		}
	}
	before := dialed.Load()
	fails.Store(false)
	clk.Step(time.Minute)
	if err := verify(translated); !errors.Is(err, dialguard.ErrNotAllowed) {
		t.Errorf("after a search: %v", err)
	}
	if dialed.Load() == before {
		t.Error("a failed search was not repeated")
	}
	before = dialed.Load()
	if err := verify("2600::1"); err != nil || dialed.Load() != before {
		t.Errorf("%v, and %d more requests within the hour", err, dialed.Load()-before)
	}

	for len(failed) > 0 {
		<-failed
	}
	fails.Store(true)
	clk.Step(time.Hour)
	if err := verify(translated); !errors.Is(err, dialguard.ErrNotAllowed) {
		t.Errorf("while the name server does not answer: %v", err)
	}
	<-failed
	if err := verify("2600::1"); err != nil {
		t.Errorf("another address meanwhile: %v", err)
	}
}

// hangingDNS knows a prefix, and answers nothing while hangs is true. ended becomes true when
// a request to it has reached its time limit.
func hangingDNS(t *testing.T) (resolver *net.Resolver, hangs, ended *atomic.Bool) {
	t.Helper()
	hangs, ended = &atomic.Bool{}, &atomic.Bool{}
	resolver = dns.NewResolver(t, map[string]string{"ipv4only.arpa": "2600:64::c000:aa"})
	working := resolver.Dial
	resolver.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !hangs.Load() {
			return working(ctx, network, address)
		}
		<-ctx.Done()
		ended.Store(true)
		return nil, context.Cause(ctx)
	}
	return resolver, hangs, ended
}

func TestARequestThatEndsDoesNotWaitForASearch(t *testing.T) {
	resolver, hangs, ended := hangingDNS(t)
	hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := dialguard.Verify(ctx, newGuard(dialguard.Config{Resolver: resolver}), netip.MustParseAddr("2600::1"))
	if !errors.Is(err, dialguard.ErrNotChecked) || ended.Load() {
		t.Errorf("%v, and it waited for the search: %t", err, ended.Load())
	}
}

// A name server that does not answer must not delay the requests of all receivers.
func TestALaterSearchForPrefixesDelaysNoRequest(t *testing.T) {
	resolver, hangs, ended := hangingDNS(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	guard := dialguard.New(clk, dialguard.Config{Resolver: resolver})
	if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr("2600::1")); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	clk.Step(time.Hour)
	for range 3 {
		if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr("2600::1")); err != nil {
			t.Error(err)
		}
		if err := dialguard.Verify(t.Context(), guard, netip.MustParseAddr("2600:64::10.0.0.1")); !errors.Is(err, dialguard.ErrNotAllowed) {
			t.Errorf("a translated address: %v", err)
		}
	}
	if ended.Load() {
		t.Error("requests waited for the search")
	}
}

func TestAFailureOfTheNameServerIsNotAMissingName(t *testing.T) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no network")
	}}
	_, err := newGuard(dialguard.Config{}).Dial(&net.Dialer{Resolver: resolver})(t.Context(), "tcp", "a.example:443")
	if err == nil || errors.Is(err, dialguard.ErrNotAllowed) {
		t.Errorf("got %v", err)
	}
}

func TestADialerRefusesOtherThanTCPAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dial := newGuard(dialguard.Config{Allowed: ranges("127.0.0.0/8")}).Dial(&net.Dialer{})
	address := listener.Addr().String()
	for _, tc := range []struct{ network, address string }{
		{"udp", address}, {"udp4", address}, {"unix", "/run/docker.sock"}, {"unix", address},
	} {
		if _, err := dial(t.Context(), tc.network, tc.address); !errors.Is(err, dialguard.ErrNotAllowed) {
			t.Errorf("dial %s %s: %v, want ErrNotAllowed", tc.network, tc.address, err)
		}
	}
	conn, err := dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("an allowed address: %v", err)
	}
	_ = conn.Close()
}
