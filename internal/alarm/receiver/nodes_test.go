package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
)

// cache contains Nodes, with the index that it is given.
type cache struct {
	client.Reader
	nodes []client.Object
}

func (c *cache) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	c.Reader = fake.NewClientBuilder().WithObjects(c.nodes...).WithIndex(o, field, extract).Build()
	return nil
}

func node(name string, podCIDRs []string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestNodesAreFoundByTheirRanges(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("203.2.0.%d", i))
	}
	c := &cache{nodes: []client.Object{
		node("global", []string{"2600:2::/80", "2600:3::/56", "11.1.0.0/24"}, "global.example", "2600:1::1", "203.1.0.1"),
		node("private", []string{"10.244.0.0/24", "fd00:1::/64"}, "10.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.2"),
		node("hostile", []string{"0.0.0.0/0", "::/0", "not a range"}, many...),
	}}
	nodes, err := receiver.NewNodes(t.Context(), c, c)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"2600:1::1":      "2600:1::1/128",
		"2600:1::2":      "2600:1::/64",
		"2600:1:0:1::":   "",
		"2600:2::9":      "2600:2::/64",
		"2600:2:0:0:1::": "2600:2::/64", // the same network
		"2600:2:0:1::":   "",
		"2600:3:0:ff::":  "2600:3::/56",
		"2600:3:0:100::": "",
		"203.1.0.1":      "203.1.0.1/32",
		"203.1.0.2":      "",
		"11.1.0.9":       "11.1.0.0/24",
		"11.1.1.9":       "",
		"10.0.0.1":       "10.0.0.1/32",
		"10.0.0.2":       "10.0.0.2/32",
		"10.244.0.9":     "10.244.0.0/24",
		"fd00:1::9":      "fd00:1::/64",
		"fe80::1":        "fe80::1/128",
		"fe80::2":        "",
		"203.2.0.31":     "203.2.0.31/32",
		"203.2.0.32":     "", // a Node has at most 32 addresses
		"8.8.8.8":        "",
		"2606:4700::":    "",
	} {
		got, err := nodes.Range(t.Context(), netip.MustParseAddr(addr))
		if text := got.String(); err != nil || got.IsValid() != (want != "") || want != "" && text != want {
			t.Errorf("Range(%s) = %s, %v, want %q", addr, text, err, want)
		}
	}
}

type broken struct{ client.Reader }

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("cache not started")
}

func TestNodesThatCannotBeReadAreAnError(t *testing.T) {
	nodes, err := receiver.NewNodes(t.Context(), broken{}, &cache{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := nodes.Range(t.Context(), netip.MustParseAddr("8.8.8.8")); err == nil {
		t.Errorf("got %s without an error", got)
	}
}
