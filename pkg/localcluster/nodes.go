package localcluster

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Simulate is the annotation that says on a node, pod or persistent volume claim
// how it is to be simulated; see the package's documentation.
const Simulate = "bongsu.io/simulate"

// The values of Simulate.
const (
	SimulateNone      = "none"       // pod, claim; on a node as a label
	SimulateNotReady  = "not-ready"  // node
	SimulateCrash     = "crash"      // pod
	SimulateOOM       = "oom"        // pod
	SimulateImagePull = "image-pull" // pod
)

// The machine that every simulated node is; the Stages give it its capacity.
const instanceType = "m6i.xlarge"

var zones = []string{"local-a", "local-b", "local-c"}

// AddNode makes sure that there are simulated nodes of these names. They join,
// and become ready, in a moment.
func (c *Cluster) AddNode(ctx context.Context, names ...string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	for _, name := range names {
		_, err := client.CoreV1().Nodes().Create(ctx, node(name), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("add node %s: %w", name, err)
		}
	}
	return nil
}

// releaseNodes removes the nodes' leases. KWOK has a new identity each time it
// starts, and would leave nodes and their pods alone until the leases that it held
// under the former one have expired.
func (c *Cluster) releaseNodes(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("release the nodes: %w", err)
	}
	return nil
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			corev1.LabelHostname:           name,
			corev1.LabelOSStable:           "linux",
			corev1.LabelArchStable:         "amd64",
			corev1.LabelInstanceTypeStable: instanceType,
			corev1.LabelTopologyRegion:     "local",
			corev1.LabelTopologyZone:       zoneOf(name),
		},
	}}
}

// zoneOf spreads names over the zones; a name keeps its zone.
func zoneOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return zones[h.Sum32()%uint32(len(zones))]
}

// ensureStorageClass creates the default class, whose volumes are simulated:
// the controller manager's own provisioner would write to this machine.
func (c *Cluster) ensureStorageClass(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "simulated",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "simulated.bongsu.io",
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the default storage class: %w", err)
	}
	return nil
}
