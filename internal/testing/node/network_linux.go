package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The network of the pods, which only this network namespace knows: a /24 of it for
// each node, with the node's address first.
const (
	bridge  = "pods0"
	network = "10.244.0.0/16"
	// Address is the first node's: pods reach at it what listens in the tests' process.
	Address = "10.244.0.1"
)

func addressOf(number int) string { return fmt.Sprintf("10.244.%d.1", number) }
func podsOf(number int) string    { return fmt.Sprintf("10.244.%d.0/24", number) }

// makeNetwork gives this network namespace a bridge for pods, with the address of the
// first node, before that is there: the API server needs it. What is sent to any other
// address goes there too, and is led on by kube-proxy, or nowhere.
func makeNetwork(ctx context.Context) error {
	for _, command := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + Address + "/24 dev " + bridge,
		"link set " + bridge + " up",
		"route add default dev " + bridge,
	} {
		if err := ip(ctx, command); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

func ip(ctx context.Context, command string) error {
	out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", command, err, out)
	}
	return nil
}
