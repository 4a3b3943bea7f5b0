package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// makeNetwork gives this network namespace a bridge for pods, before the first of them
// needs it, as the API server listens at its address. All that is not for a pod goes
// there too and is led on by kube-proxy, or nowhere.
func makeNetwork(ctx context.Context) error {
	for _, command := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + Address + "/16 dev " + bridge,
		"link set " + bridge + " up",
		"route add default dev " + bridge,
	} {
		out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}
