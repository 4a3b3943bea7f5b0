// Package dns is a name server for tests on the loopback interface. It knows the given
// names only, and answers NXDOMAIN for all others.
package dns

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// NewResolver returns a resolver that uses a name server with these hosts, by name. A host
// whose address is empty exists without an address. The server stops with the test.
func NewResolver(t testing.TB, hosts map[string]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go serve(conn, hosts)
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
		},
	}
}

func serve(conn net.PacketConn, hosts map[string]string) {
	buffer := make([]byte, 1500)
	for {
		n, client, err := conn.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		if answer, err := reply(query, hosts); err == nil {
			_, _ = conn.WriteTo(answer, client)
		}
	}
}

func reply(query dnsmessage.Message, hosts map[string]string) ([]byte, error) {
	question := query.Questions[0]
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RCode: dnsmessage.RCodeNameError},
		Questions: query.Questions,
	}
	if host, ok := hosts[strings.TrimSuffix(question.Name.String(), ".")]; ok {
		message.RCode = dnsmessage.RCodeSuccess
		addr, err := netip.ParseAddr(host)
		if body := resource(question.Type, addr); err == nil && body != nil {
			header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET}
			message.Answers = []dnsmessage.Resource{{Header: header, Body: body}}
		}
	}
	return message.Pack()
}

// resource returns nil if the address does not have the requested type.
func resource(asked dnsmessage.Type, addr netip.Addr) dnsmessage.ResourceBody {
	switch {
	case asked == dnsmessage.TypeA && addr.Is4():
		return &dnsmessage.AResource{A: addr.As4()}
	case asked == dnsmessage.TypeAAAA && addr.Is6():
		return &dnsmessage.AAAAResource{AAAA: addr.As16()}
	}
	return nil
}
