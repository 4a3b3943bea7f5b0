package dialguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// countingNodes counts the addresses that a Guard asks for.
type countingNodes struct {
	asked atomic.Int32
	err   error
}

// Range implements dialguard.Nodes.
func (n *countingNodes) Range(context.Context, netip.Addr) (netip.Prefix, error) {
	n.asked.Add(1)
	return netip.Prefix{}, n.err
}

// answerMany answers a query over TCP with as many addresses as fit, at 127.1.x.y.
func answerMany(conn net.Conn, last int) {
	defer func() { _ = conn.Close() }()
	var size uint16
	if binary.Read(conn, binary.BigEndian, &size) != nil {
		return
	}
	raw := make([]byte, size)
	var query dnsmessage.Message
	if _, err := io.ReadFull(conn, raw); err != nil || query.Unpack(raw) != nil {
		return
	}
	question := query.Questions[0]
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions,
	}
	for i := 1; i <= last && question.Type == dnsmessage.TypeA; i++ {
		answer.Answers = append(answer.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 1, byte(i >> 8), byte(i)}},
		})
	}
	packed, err := answer.Pack()
	if err != nil {
		return
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
}

// A tenant could otherwise use the CPU of the operator, or let it connect to each address of a
// network, with one message.
func TestFewAddressesOfANameAreTried(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(closed.Addr().String())
	if closeErr := closed.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answerMany(there, 4000)
		return here, nil
	}}
	nodes := &countingNodes{}
	many := net.JoinHostPort("many.example", port)
	guard := newGuard(dialguard.Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Nodes: nodes})
	_, err = guard.Dial(&net.Dialer{Resolver: resolver})(t.Context(), "tcp", many)
	if n := nodes.asked.Load(); n != 16 || !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("%d addresses were tried, want 16: %v", n, err)
	}
	forbidding := newGuard(dialguard.Config{})
	if _, err := forbidding.Dial(&net.Dialer{Resolver: resolver})(t.Context(), "tcp", many); err != dialguard.ErrNotAllowed { //nolint:errorlint // it must show nothing else
		t.Errorf("forbidden addresses: %v", err)
	}
	// A proxy gets the first address that is allowed.
	nodes.asked.Store(0)
	nodes.err = errors.New("no Nodes")
	if _, err := guard.Resolve(t.Context(), resolver, "many.example"); !errors.Is(err, dialguard.ErrNotChecked) || nodes.asked.Load() != 16 {
		t.Errorf("%d addresses were checked, want 16: %v", nodes.asked.Load(), err)
	}
}
