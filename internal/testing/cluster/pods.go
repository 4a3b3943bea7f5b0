package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// pods are the servers that play those in pods: nothing listens at the address of a
// simulated pod.
type pods struct {
	mu      sync.Mutex
	servers map[string]string
	last    int
}

// ServePod has a server play what listens in a pod, on whichever port, and returns an
// IP address that the pod should be given. The operators of the cluster are its
// clients.
func (c *Cluster) ServePod(t testing.TB, server string) (ip string) {
	t.Helper()
	c.pods.mu.Lock()
	defer c.pods.mu.Unlock()
	if c.pods.servers == nil {
		c.pods.servers = map[string]string{}
	}
	c.pods.last++
	ip = fmt.Sprintf("192.0.2.%d", c.pods.last) // TEST-NET-1: nobody else's
	c.pods.servers[ip] = server
	return ip
}

// dialPod connects to what plays a pod; others refuse the connection.
func (c *Cluster) dialPod(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c.pods.mu.Lock()
	server, ok := c.pods.servers[host]
	c.pods.mu.Unlock()
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	return new(net.Dialer).DialContext(ctx, network, server)
}

// execNode is the node of the pods of ExecPod.
const execNode = "node-0"

// Exec has commands that are run in pods really run: on this machine, by the user of
// the test, found in the directories of path (os.Getenv("PATH") for all there is). It
// starts KWOK for that, with a node, if nothing else does.
//
// KWOK tells of no exit code but 0: of another one it says that the command could
// not be run. It looks at pods for their names only, and leaves a command be when its
// pod goes or its client hangs up, as nodes do for the latter.
func Exec(path string) Option {
	return func(c *localcluster.Config) {
		c.ExecPath, c.Nodes = path, max(c.Nodes, 1)
		if !slices.Contains(c.Components, localcluster.Kwok) {
			c.Components = append(c.Components, localcluster.Kwok)
		}
	}
}

// ExecPod creates a pod with containers in which commands can be run, in a cluster
// with the option Exec. It is on a node without having been scheduled.
func (c *Cluster) ExecPod(t testing.TB, namespace, name string, containers ...string) *corev1.Pod {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := c.Client.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err := c.awaitNode(t.Context(), execNode); err != nil {
		t.Fatalf("the node that runs commands has not joined: %v", err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: execNode, TerminationGracePeriodSeconds: new(int64(0)),
			// A node has a taint until the controller manager takes it away.
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: "example.com/app:1"})
	}
	if err := c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// awaitNode returns when the API server can reach a node.
func (c *Cluster) awaitNode(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &node)
		return err == nil && node.Status.DaemonEndpoints.KubeletEndpoint.Port != 0, client.IgnoreNotFound(err)
	})
}
