package demo

import (
	"bytes"
	"context"
	"embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Where the demo happens. The namespace of teamA comes with the sample.
const (
	shop  = "shop"
	teamA = "team-a"
)

// newcomers are the nodes that join; the second one fails later.
var newcomers = []string{"spot-1", "spot-2"}

// act is something that happens and the alarms that it raises.
type act struct {
	title  string
	play   func(context.Context, *Demo) error
	raises []string
}

var acts = []act{
	{"Two nodes join.", join, []string{"node-joined"}},
	{
		"A Deployment starts, with two replicas.", apply("web"),
		[]string{"deployment-scaling", "replicaset-create", "container-created", "container-started"},
	},
	{"Its autoscaler wants three.", autoscale, []string{"autoscaler-rescale"}},
	{"Somebody scales it down to one.", scaleDown, []string{"replicaset-delete", "container-killing"}},
	{"A pod runs out of memory, again and again.", apply("crash"), []string{"crash"}},
	{"A pod asks for more than any node has.", apply("huge"), []string{"scheduling-failed"}},
	{"An image has a tag that does not exist.", apply("image"), []string{"image-pull", "namespace-warnings"}},
	{"Nobody answers the health check of an app.", apply("unanswered"), []string{"appservice-health"}},
	{"A node fails.", failNode, []string{"node-not-ready"}},
}

//go:embed manifests/*.yaml
var manifests embed.FS

// apply applies one of the manifests.
func apply(name string) func(context.Context, *Demo) error {
	return func(ctx context.Context, d *Demo) error {
		data, err := manifests.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return err
		}
		objects, err := config.Decode(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return install.Apply(ctx, d.client, objects...)
	}
}

func join(ctx context.Context, d *Demo) error { return d.cluster.AddNode(ctx, newcomers...) }

// autoscale takes the autoscaler away once it has done its work: without metrics
// it would complain from then on.
func autoscale(ctx context.Context, d *Demo) error {
	if err := apply("autoscaler")(ctx, d); err != nil {
		return err
	}
	if err := d.awaitReplicas(ctx, 3); err != nil {
		return err
	}
	return d.client.Delete(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}})
}

func scaleDown(ctx context.Context, d *Demo) error {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`))
	return d.client.Patch(ctx, web, patch)
}

func failNode(ctx context.Context, d *Demo) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: newcomers[1]}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, localcluster.Simulate, localcluster.SimulateNotReady)
	return d.client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", patch))
}

// awaitReplicas returns when so many replicas of the Deployment are ready.
func (d *Demo) awaitReplicas(ctx context.Context, count int32) error {
	return d.until(ctx, func(ctx context.Context) (bool, error) {
		var web appsv1.Deployment
		err := d.client.Get(ctx, client.ObjectKey{Namespace: shop, Name: "web"}, &web)
		return web.Status.ReadyReplicas == count, err
	})
}

// until waits for something that the cluster, not the operator, has to do.
func (d *Demo) until(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, d.config.Patience, true, condition)
}
