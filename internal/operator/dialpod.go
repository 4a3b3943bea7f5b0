package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simulatedKubelet is the prefix of the kubelet version of a node that KWOK simulates, as in the
// embedded cluster.
const simulatedKubelet = "kwok-"

var (
	errSimulated = errors.New("a simulated pod has no network")
	errNoKubelet = errors.New("no kubelet has registered the node of the pod")
)

// podDialer connects to pods. It refuses simulated pods, because another machine on the network
// can have the address of such a pod, and would receive tokens. For the same reason, it refuses
// pods on a node without a kubelet.
type podDialer struct {
	nodes client.Reader
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects to the TCP address of a pod on a node.
func (d podDialer) Dial(ctx context.Context, node, address string) (net.Conn, error) {
	var on corev1.Node
	if err := d.nodes.Get(ctx, client.ObjectKey{Name: node}, &on); err != nil {
		return nil, fmt.Errorf("get the node of the pod: %w", err)
	}
	switch version := on.Status.NodeInfo.KubeletVersion; {
	case version == "":
		return nil, errNoKubelet
	case strings.HasPrefix(version, simulatedKubelet):
		return nil, errSimulated
	}
	return d.dial(ctx, "tcp", address)
}
