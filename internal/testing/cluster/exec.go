package cluster

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

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
