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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// pods contains the servers that stand in for pods. Nothing listens at the address of a
// simulated pod.
type pods struct {
	mu      sync.Mutex
	servers map[string]string
	last    int
}

// ServePod forwards the operator's connections to a pod to a server, for all ports. It
// returns the IP address to set in the pod's status.
func (c *Cluster) ServePod(t testing.TB, server string) (ip string) {
	t.Helper()
	c.pods.mu.Lock()
	defer c.pods.mu.Unlock()
	if c.pods.servers == nil {
		c.pods.servers = map[string]string{}
	}
	c.pods.last++
	ip = fmt.Sprintf("192.0.2.%d", c.pods.last) // TEST-NET-1: not used by real hosts
	c.pods.servers[ip] = server
	return ip
}

// dialPod connects to the server of a pod. Other addresses refuse the connection.
func (c *Cluster) dialPod(ctx context.Context, _, address string) (net.Conn, error) {
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
	return new(net.Dialer).DialContext(ctx, "tcp", server)
}

// execNode is the node of the pods that ExecPod creates.
const execNode = "node-0"

// Exec runs the commands of pods on this machine, as the user of the test. path lists the
// directories with the programs; os.Getenv("PATH") allows all. Exec starts KWOK and a
// node, unless another option does.
//
// KWOK reports only exit code 0. For others, it reports that the command could not run.
// It identifies pods by name only. The command continues when its pod is deleted or its
// client disconnects. Real nodes also do the latter.
func Exec(path string) Option {
	return func(c *localcluster.Config) {
		c.ExecPath, c.Nodes = path, max(c.Nodes, 1)
		if !slices.Contains(c.Components, localcluster.Kwok) {
			c.Components = append(c.Components, localcluster.Kwok)
		}
	}
}

// Forward forwards a port of every simulated pod to a port of this machine, for
// pods/portforward.
func Forward(podPort, port int32) Option {
	return func(c *localcluster.Config) {
		if c.ForwardPorts == nil {
			c.ForwardPorts = map[int32]int32{}
		}
		c.ForwardPorts[podPort] = port
	}
}

// ExecPod creates a pod in whose containers commands can run. The cluster needs the option
// Exec. The pod is on a node without being scheduled.
func (c *Cluster) ExecPod(t testing.TB, namespace, name string, containers ...string) *corev1.Pod {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := c.Client.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if err := c.awaitNode(t.Context(), execNode); err != nil {
		t.Fatalf("node %s is not ready to run commands: %v", execNode, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: execNode, TerminationGracePeriodSeconds: new(int64(0)),
			// A node has a taint until the controller manager removes it.
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

// ClaimElsewhere creates a claim whose volume only nodes of the zone "zone-gone" can use. There are
// none.
func (c *Cluster) ClaimElsewhere(t testing.TB, namespace, name string) {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "1"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-gone"}}},
		}}}},
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), VolumeName: volume.Name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}
	for _, o := range []client.Object{volume, claim} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// AwaitAccount waits until the controller manager has created the service account of a new
// namespace. Before that, the API server accepts no pods in it.
func (c *Cluster) AwaitAccount(ctx context.Context, namespace string) error {
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// awaitNode waits until the API server can reach a node.
func (c *Cluster) awaitNode(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &node)
		return err == nil && node.Status.DaemonEndpoints.KubeletEndpoint.Port != 0, client.IgnoreNotFound(err)
	})
}
