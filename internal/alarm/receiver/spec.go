package receiver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
)

// Allows reports whether the Alarms of a namespace with these labels may use the receiver.
// An invalid selector, which the receiver's status shows, allows none.
func Allows(receiver *v1alpha1.ClusterAlarmReceiver, namespace map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(receiver.Spec.AllowedNamespaces)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// NotAllowed is the error for a ClusterAlarmReceiver that does not exist, or that the Alarms of a
// namespace may not use. It is the same for both: otherwise, tenants could find out which names exist.
func NotAllowed(receiver, namespace string) *ConfigError {
	return &ConfigError{
		Reason: v1alpha1.ReasonReceiverNotFound,
		Message: fmt.Sprintf("ClusterAlarmReceiver %s does not exist, or does not allow Alarms of namespace %s: "+
			"correct spec.receivers, or ask an administrator to select the namespace in spec.allowedNamespaces of the receiver",
			receiver, namespace),
	}
}

// specOf returns what both kinds have in common, without a copy.
func specOf(object Object) *v1alpha1.AlarmReceiverSpec {
	if r, ok := object.(*v1alpha1.AlarmReceiver); ok {
		return &r.Spec
	}
	return &object.(*v1alpha1.ClusterAlarmReceiver).Spec.AlarmReceiverSpec
}

// Repeats reports whether the notifier of a receiver is a notify.Repeater. It reads no Secret.
func Repeats(object Object) bool { return specOf(object).Alertmanager != nil }

// Acknowledges reports whether the notifier of a receiver shows who acknowledged a group. It
// reads no Secret.
func Acknowledges(object Object) bool {
	spec := specOf(object)
	return spec.PagerDuty != nil || spec.Slack != nil && spec.Slack.TokenSecretRef != nil
}

// NamespaceLabels returns the keys of the labels of namespaces by which a receiver chooses a
// channel.
func NamespaceLabels(object Object) []string {
	if slack := specOf(object).Slack; slack != nil && slack.ChannelFrom != nil {
		return []string{slack.ChannelFrom.NamespaceLabel}
	}
	return nil
}

// Channels returns the channels of a receiver that chooses one for each message, and false for
// any other receiver.
func Channels(object Object) (slack.Channels, bool) {
	spec := object.ClusterSpec().Slack
	if spec == nil || spec.ChannelFrom == nil {
		return slack.Channels{}, false
	}
	return slack.Channels{Default: spec.Channel, From: spec.ChannelFrom}, true
}
