package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogReceiver writes each message to the standard output of the operator.
type LogReceiver struct{}

// AnnotationDrop on a receiver drops messages that are set aside. Its value is "all", or the
// ID of a message, as `bongsu-operator pending` shows it. A value is handled once.
const AnnotationDrop = Group + "/drop"

// AnnotationSendTest on a receiver makes the operator send a test message to it, once for
// each new value.
const AnnotationSendTest = Group + "/send-test"

// AlarmReceiverSpec is the spec of an AlarmReceiver: the settings of the one type that it has.
//
// +kubebuilder:validation:ExactlyOneOf=slack;teams;discord;googleChat;mattermost;telegram;pagerDuty;alertmanager;email;webhook;log
type AlarmReceiverSpec struct {
	// slack posts to a Slack channel. It sends at most one message per second, or as a bot
	// one every 1.5 seconds, and combines further messages into a digest.
	// +optional
	Slack *SlackReceiver `json:"slack,omitempty"`

	// teams posts to a channel or chat of Microsoft Teams, through the webhook of a
	// workflow. It sends at most one message per second, and combines further messages
	// into a digest.
	// +optional
	Teams *ChatReceiver `json:"teams,omitempty"`

	// discord posts to a Discord channel. It sends at most one message every 2 seconds, and
	// combines further messages into a digest.
	// +optional
	Discord *ChatReceiver `json:"discord,omitempty"`

	// googleChat posts to a space of Google Chat, through an incoming webhook. It sends at most
	// one message per second, and combines further messages into a digest.
	// +optional
	GoogleChat *ChatReceiver `json:"googleChat,omitempty"`

	// mattermost posts to a Mattermost channel, through an incoming webhook. It sends at most
	// one message per second, and combines further messages into a digest.
	// +optional
	Mattermost *ChatReceiver `json:"mattermost,omitempty"`

	// telegram posts to a Telegram chat as a bot. It sends at most one message every 3
	// seconds, and combines further messages into a digest.
	// +optional
	Telegram *TelegramReceiver `json:"telegram,omitempty"`

	// pagerDuty triggers PagerDuty incidents. Each group of an alarm is an incident, which
	// is resolved with the group. If nothing resolves the group, resolve the incident
	// yourself. Without groups, each pair of object and reason is an incident.
	// +optional
	PagerDuty *PagerDutyReceiver `json:"pagerDuty,omitempty"`

	// alertmanager sends alerts to an Alertmanager. Each group of an alarm is an alert. It
	// ends when the group is resolved, or an hour after the last occurrence. Without groups,
	// each pair of object and reason is an alert.
	// +optional
	Alertmanager *AlertmanagerReceiver `json:"alertmanager,omitempty"`

	// email sends emails, at most one every 10 seconds. It combines further messages into
	// a digest.
	// +optional
	Email *EmailReceiver `json:"email,omitempty"`

	// webhook posts JSON to an HTTP server.
	// +optional
	Webhook *WebhookReceiver `json:"webhook,omitempty"`

	// log writes to the standard output of the operator.
	// +optional
	Log *LogReceiver `json:"log,omitempty"`

	// timeoutSeconds is how long the operator waits for an answer after it is connected, in
	// seconds, from 1 to 600. If a receiver accepts a message later, it gets the message
	// again. If unset, 10; for email, up to 5 minutes for a command and 10 minutes for the
	// message, as in RFC 5321.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// AlarmReceiver is a destination for the messages of Alarms in its namespace.
//
// The operator does not connect to loopback, link-local, private or shared addresses for
// it, unless the administrator allows their range.
//
// All AlarmReceivers of a namespace together send at most 10 messages per second, after a
// burst of 100. Each of them combines further messages into a digest.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=alr,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="REACHED",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST-DELIVERY",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AlarmReceiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.slack) || !has(self.slack.channelFrom)",message="spec.slack.channelFrom is for ClusterAlarmReceivers: remove it"
	Spec AlarmReceiverSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status AlarmStatus `json:"status,omitempty"`
}

// AlarmReceiverList is a list of AlarmReceivers.
//
// +kubebuilder:object:root=true
type AlarmReceiverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AlarmReceiver `json:"items"`
}
