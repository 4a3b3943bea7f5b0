package dialguard_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

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
	} {
		t.Run(name, func(t *testing.T) {
			if err := dialguard.New().Check(netip.MustParseAddr(addr)); !errors.Is(err, dialguard.ErrNotAllowed) {
				t.Errorf("Check(%s) = %v, want ErrNotAllowed", addr, err)
			}
		})
	}
}

func TestCheckAllowsPublicAddresses(t *testing.T) {
	for _, addr := range []string{"8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::6810:84e5", "100.128.0.1", "172.32.0.1"} {
		if err := dialguard.New().Check(netip.MustParseAddr(addr)); err != nil {
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
	} {
		t.Run(name, func(t *testing.T) {
			guard := dialguard.New(netip.MustParsePrefix(tc.allowed))
			if err := guard.Check(netip.MustParseAddr(tc.addr)); (err == nil) != tc.want {
				t.Errorf("allowing %s, Check(%s) = %v, want allowed %t", tc.allowed, tc.addr, err, tc.want)
			}
		})
	}
}

func TestControlRefusesOtherThanTCPAddresses(t *testing.T) {
	guard := dialguard.New(netip.MustParsePrefix("127.0.0.0/8"))
	for _, tc := range []struct{ network, address string }{
		{"udp4", "127.0.0.1:53"}, {"unix", "/run/docker.sock"}, {"tcp4", "localhost:80"},
	} {
		if err := guard.Control(tc.network, tc.address, nil); !errors.Is(err, dialguard.ErrNotAllowed) {
			t.Errorf("Control(%s, %s) = %v, want ErrNotAllowed", tc.network, tc.address, err)
		}
	}
	if err := guard.Control("tcp4", "127.0.0.1:8443", nil); err != nil {
		t.Errorf("an allowed address on an uncommon port: %v", err)
	}
}
