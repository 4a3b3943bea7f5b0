package operator

import (
	"context"
	"errors"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// cachedNode returns a node as the cache keeps it.
func cachedNode(t *testing.T, name, kubelet string) client.Object {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet}},
	}
	for kind, options := range cacheOptions().ByObject {
		if _, ok := kind.(*corev1.Node); ok {
			kept, err := options.Transform(node)
			if err != nil {
				t.Fatal(err)
			}
			return kept.(client.Object)
		}
	}
	return node
}

func TestTheOperatorDialsNoSimulatedPod(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	nodes := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cachedNode(t, "real", "v1.37.2"), cachedNode(t, "fake", "kwok-v0.8.0"), cachedNode(t, "new", "")).Build()
	var dialed []string
	d := podDialer{nodes: nodes, dial: func(_ context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, network+" "+address)
		return nil, nil
	}}
	if _, err := d.Dial(t.Context(), "real", "10.0.0.1:80"); err != nil {
		t.Error(err)
	}
	if _, err := d.Dial(t.Context(), "fake", "10.0.0.2:80"); !errors.Is(err, errSimulated) {
		t.Errorf("a simulated node: got %v", err)
	}
	if _, err := d.Dial(t.Context(), "new", "10.0.0.4:80"); !errors.Is(err, errNoKubelet) {
		t.Errorf("a node without a kubelet: got %v", err)
	}
	if _, err := d.Dial(t.Context(), "gone", "10.0.0.3:80"); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown node: got %v", err)
	}
	if len(dialed) != 1 || dialed[0] != "tcp 10.0.0.1:80" {
		t.Errorf("dialed %q", dialed)
	}
}
