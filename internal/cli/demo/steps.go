package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// The namespaces of the demo. A sample creates teamA.
const (
	shop  = "shop"
	teamA = "team-a"
)

// admins is the ClusterRoleBinding of manifests/admin.yaml.
const admins = "demo-admins"

// addedNodes join the cluster; the second one fails later.
var addedNodes = []string{"spot-1", "spot-2"}

// step changes the cluster and names the alarms that the change raises.
type step struct {
	title  string
	run    func(context.Context, *Demo) error
	raises []string
}

var steps = []step{
	{"Two nodes join.", join, []string{"node-joined"}},
	{
		"A Deployment starts, with two replicas.", apply("web"),
		[]string{"deployment-scaling", "replicaset-create", "container-created", "container-started"},
	},
	{"Its autoscaler wants three.", autoscale, []string{"autoscaler-rescale"}},
	{"A user scales it down to one.", scaleDown, []string{"replicaset-delete", "container-killing", "replicas-changed"}},
	{"A user rolls out another image.", setImage, []string{"image-changed"}},
	{"A ClusterRoleBinding to cluster-admin is created.", apply("admin"), []string{"cluster-admin-granted"}},
	{"A pod runs out of memory, again and again.", apply("crash"), []string{"crash"}},
	{"A Job fails.", apply("job"), []string{"job-failed"}},
	{"A pod asks for more than any node has.", apply("huge"), []string{"scheduling-failed"}},
	{"An image has a tag that does not exist.", apply("image"), []string{"image-pull", "namespace-warnings"}},
	{"An app starts, with a health check and a backup.", startApp, nil},
	{"The health check of its pod fails, and the operator replaces the pod.", failCheck, []string{"appservice-health"}},
	{"A user deletes the app, and the operator backs it up before.", deleteApp, nil},
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

func join(ctx context.Context, d *Demo) error { return d.cluster.AddNode(ctx, addedNodes...) }

// autoscale deletes the autoscaler after it has scaled, because it would emit warnings
// about missing metrics.
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
	return d.patchWeb(ctx, `{"spec":{"replicas":1}}`)
}

func setImage(ctx context.Context, d *Demo) error {
	return d.patchWeb(ctx, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.5"}]}}}}`)
}

// patchWeb changes the Deployment of the demo.
func (d *Demo) patchWeb(ctx context.Context, patch string) error {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}
	return d.client.Patch(ctx, web, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

func failNode(ctx context.Context, d *Demo) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: addedNodes[1]}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, localcluster.Simulate, localcluster.SimulateNotReady)
	return d.client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", patch))
}

func startApp(ctx context.Context, d *Demo) error {
	if err := apply("app")(ctx, d); err != nil {
		return err
	}
	return d.awaitHealthy(ctx)
}

// failCheck changes how the simulated pods of the app answer commands.
func failCheck(ctx context.Context, d *Demo) error {
	pods, err := d.podsOfApp(ctx)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{\"exitCode\": 1, \"output\": \"no answer\"}"}}}`, localcluster.SimulateExec)
	for i := range pods {
		if err := d.client.Patch(ctx, &pods[i], client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	isFormer := func(pod corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(former corev1.Pod) bool { return former.UID == pod.UID })
	}
	err = d.until(ctx, func(ctx context.Context) (bool, error) {
		now, err := d.podsOfApp(ctx)
		return len(now) > 0 && !slices.ContainsFunc(now, isFormer), err
	})
	if err != nil {
		return err
	}
	return d.awaitHealthy(ctx)
}

func deleteApp(ctx context.Context, d *Demo) error { return d.remove(ctx, []client.Object{newApp()}) }

func newApp() *v1alpha1.AppService {
	return &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "status"}}
}

func (d *Demo) podsOfApp(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := d.client.List(ctx, &pods, client.InNamespace(shop), client.MatchingLabels{v1alpha1.LabelAppService: newApp().Name})
	return pods.Items, err
}

// awaitHealthy returns when the health checks of the app succeed.
func (d *Demo) awaitHealthy(ctx context.Context) error {
	return d.until(ctx, func(ctx context.Context) (bool, error) {
		app := newApp()
		err := d.client.Get(ctx, client.ObjectKeyFromObject(app), app)
		return meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionHealthy), err
	})
}

// awaitReplicas returns when count replicas of the Deployment are ready.
func (d *Demo) awaitReplicas(ctx context.Context, count int32) error {
	return d.until(ctx, func(ctx context.Context) (bool, error) {
		var web appsv1.Deployment
		err := d.client.Get(ctx, client.ObjectKey{Namespace: shop, Name: "web"}, &web)
		return web.Status.ReadyReplicas == count, err
	})
}

// until waits for a change that the cluster makes, not the operator.
func (d *Demo) until(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, d.config.Timeout, true, condition)
}

// slackReceiver is the second receiver of each alarm if there is a webhook URL.
const slackReceiver = "slack"

// prepare removes the objects of a previous run, applies the samples and waits until they
// are Ready.
func (d *Demo) prepare(ctx context.Context) error {
	if err := d.clean(ctx); err != nil {
		return fmt.Errorf("remove the objects of a previous run: %w", err)
	}
	receivers, err := d.receivers()
	if err != nil {
		return err
	}
	alarms, err := d.alarms()
	if err != nil {
		return err
	}
	d.printf("==> Applying the alarms of config/samples.\n")
	if err := install.Apply(ctx, d.client, append(receivers, alarms...)...); err != nil {
		return err
	}
	if err := d.seen.awaitReady(ctx); err != nil {
		return err
	}
	return d.seen.begin(ctx)
}

// clean removes the namespaces before the nodes, because a pod without its node is never
// deleted.
func (d *Demo) clean(ctx context.Context) error {
	others := []client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: admins}}}
	for _, name := range []string{shop, teamA} {
		others = append(others, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var nodes []client.Object
	for _, name := range addedNodes {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err := d.remove(ctx, others); err != nil {
		return err
	}
	return d.remove(ctx, nodes)
}

// remove deletes objects and waits until they no longer exist.
func (d *Demo) remove(ctx context.Context, objects []client.Object) error {
	for _, o := range objects {
		if err := d.client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return d.until(ctx, func(ctx context.Context) (bool, error) {
		for _, o := range objects {
			if err := d.client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

func (d *Demo) receivers() ([]*unstructured.Unstructured, error) {
	receivers, err := samples.ReceiverOf("log")
	if err != nil || d.config.SlackWebhookURL == "" {
		return receivers, err
	}
	slack, err := samples.ReceiverOf("slack")
	if err != nil {
		return nil, err
	}
	for _, o := range slack {
		if o.GetKind() == "Secret" {
			err = errors.Join(err, unstructured.SetNestedField(o.Object, d.config.SlackWebhookURL, "stringData", "url"))
			continue
		}
		o.SetName(slackReceiver)
		allowed := map[string]string{corev1.LabelMetadataName: teamA}
		err = errors.Join(err, unstructured.SetNestedStringMap(o.Object, allowed, "spec", "allowedNamespaces", "matchLabels"))
	}
	return append(receivers, slack...), err
}

// receiverNames returns the names of the ClusterAlarmReceivers.
func (d *Demo) receiverNames() []string {
	if d.config.SlackWebhookURL == "" {
		return []string{samples.Receiver}
	}
	return []string{samples.Receiver, slackReceiver}
}

func (d *Demo) alarms() ([]*unstructured.Unstructured, error) {
	alarms, err := samples.Alarms()
	if err != nil || d.config.SlackWebhookURL == "" {
		return alarms, err
	}
	for _, o := range alarms {
		if o.GetKind() == "ClusterAlarm" || o.GetKind() == "Alarm" {
			err = errors.Join(err, addReceiver(o, slackReceiver))
		}
	}
	return alarms, err
}

// addReceiver adds a ClusterAlarmReceiver to an alarm.
func addReceiver(alarm *unstructured.Unstructured, name string) error {
	receivers, _, err := unstructured.NestedSlice(alarm.Object, "spec", "receivers")
	if err != nil {
		return err
	}
	receivers = append(receivers, map[string]any{"kind": "ClusterAlarmReceiver", "name": name})
	return unstructured.SetNestedSlice(alarm.Object, receivers, "spec", "receivers")
}
