package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterAlarmReceiverSpec is the spec of a ClusterAlarmReceiver.
//
// +kubebuilder:validation:XValidation:rule="[has(self.slack), has(self.teams), has(self.discord), has(self.telegram), has(self.pagerDuty), has(self.alertmanager), has(self.email), has(self.webhook), has(self.log)].filter(x, x).size() == 1",message="set exactly one of slack, teams, discord, telegram, pagerDuty, alertmanager, email, webhook and log"
// +kubebuilder:validation:XValidation:rule="!has(self.proxyURL) || !has(self.email) && !has(self.log)",message="email and log use no HTTP proxy: remove proxyURL"
type ClusterAlarmReceiverSpec struct {
	// slack posts to a Slack channel. It sends at most one message per second, or as a bot
	// one every 1.5 seconds, and combines further messages into a digest.
	// +optional
	Slack *ClusterSlackReceiver `json:"slack,omitempty"`

	// teams posts to a channel or chat of Microsoft Teams, through the webhook of a
	// workflow. It sends at most one message per second, and combines further messages
	// into a digest.
	// +optional
	Teams *ClusterChatReceiver `json:"teams,omitempty"`

	// discord posts to a Discord channel. It sends at most one message every 2 seconds, and
	// combines further messages into a digest.
	// +optional
	Discord *ClusterChatReceiver `json:"discord,omitempty"`

	// telegram posts to a Telegram chat as a bot. It sends at most one message every 3
	// seconds, and combines further messages into a digest.
	// +optional
	Telegram *ClusterTelegramReceiver `json:"telegram,omitempty"`

	// pagerDuty triggers PagerDuty incidents. Each group of an alarm is an incident, which
	// is resolved with the group. If nothing resolves the group, resolve the incident
	// yourself. Without groups, each pair of object and reason is an incident.
	// +optional
	PagerDuty *ClusterPagerDutyReceiver `json:"pagerDuty,omitempty"`

	// alertmanager sends alerts to an Alertmanager. Each group of an alarm is an alert. It
	// ends when the group is resolved, or an hour after the last occurrence. Without groups,
	// each pair of object and reason is an alert.
	// +optional
	Alertmanager *ClusterAlertmanagerReceiver `json:"alertmanager,omitempty"`

	// email sends emails, at most one every 10 seconds. It combines further messages into
	// a digest.
	// +optional
	Email *ClusterEmailReceiver `json:"email,omitempty"`

	// webhook posts JSON to an HTTP server. It has no rate limit.
	// +optional
	Webhook *ClusterWebhookReceiver `json:"webhook,omitempty"`

	// log writes to the standard output of the operator. It has no rate limit.
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

	// proxyURL is the URL of an HTTP proxy for all requests to the receiver: http or https,
	// without a user or password. If unset, the operator's environment variables HTTPS_PROXY,
	// HTTP_PROXY and NO_PROXY apply.
	// +optional
	ProxyURL ServerURL `json:"proxyURL,omitempty"`

	// allowedNamespaces selects, by their labels, the namespaces whose Alarms can use this
	// receiver. {} selects all. If unset, only ClusterAlarms can use it.
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`

	// chosenBy lets ClusterAlarms choose this receiver by a label of the namespace: see
	// spec.receiversFrom of ClusterAlarm. If unset, a ClusterAlarm must name it.
	// +optional
	ChosenBy *ReceiverChoice `json:"chosenBy,omitempty"`
}

// ClusterAlarmReceiver is a destination for the messages of ClusterAlarms, and of Alarms
// in the namespaces that it allows.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=calr,categories={bongsu}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="REACHED",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST-DELIVERY",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAlarmReceiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterAlarmReceiverSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status AlarmStatus `json:"status,omitempty"`
}

// ClusterAlarmReceiverList is a list of ClusterAlarmReceivers.
//
// +kubebuilder:object:root=true
type ClusterAlarmReceiverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAlarmReceiver `json:"items"`
}
