package demo

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/cli/install"
)

// slackReceiver is the second receiver of each alarm, where there is one.
const slackReceiver = "slack"

// prepare removes what a former demo left behind and brings the samples into force.
func (d *Demo) prepare(ctx context.Context) error {
	if err := d.clean(ctx); err != nil {
		return fmt.Errorf("remove what a former demo left: %w", err)
	}
	receivers, err := d.receivers()
	if err != nil {
		return err
	}
	alarms, err := d.alarms()
	if err != nil {
		return err
	}
	d.say("==> The alarms of config/samples are applied.\n")
	if err := install.Apply(ctx, d.client, append(receivers, alarms...)...); err != nil {
		return err
	}
	if err := d.seen.awaitReady(ctx); err != nil {
		return err
	}
	return d.seen.begin(ctx)
}

// clean removes namespaces, and then nodes: without its node a pod would never end.
func (d *Demo) clean(ctx context.Context) error {
	var namespaces, nodes []client.Object
	for _, name := range []string{shop, teamA} {
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range newcomers {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err := d.remove(ctx, namespaces); err != nil {
		return err
	}
	return d.remove(ctx, nodes)
}

// remove deletes objects and returns when they are gone.
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

// receiverNames are those of the ClusterAlarmReceivers that the alarms send to.
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

// addReceiver lets an alarm send to a ClusterAlarmReceiver as well.
func addReceiver(alarm *unstructured.Unstructured, name string) error {
	receivers, _, err := unstructured.NestedSlice(alarm.Object, "spec", "receivers")
	if err != nil {
		return err
	}
	receivers = append(receivers, map[string]any{"kind": "ClusterAlarmReceiver", "name": name})
	return unstructured.SetNestedSlice(alarm.Object, receivers, "spec", "receivers")
}
