package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterAlarmReceiverSpec says where messages go and who may send them there.
//
// +kubebuilder:validation:XValidation:rule="[has(self.slack), has(self.teams), has(self.discord), has(self.telegram), has(self.pagerDuty), has(self.alertmanager), has(self.email), has(self.webhook), has(self.log)].filter(x, x).size() == 1",message="exactly one of slack, teams, discord, telegram, pagerDuty, alertmanager, email, webhook and log must be set"
type ClusterAlarmReceiverSpec struct {
	// slack posts to a Slack channel, at most one message a second; what is
	// beyond that comes as a digest.
	// +optional
	Slack *ClusterSlackReceiver `json:"slack,omitempty"`

	// teams posts to a channel or chat of Microsoft Teams through a workflow's webhook,
	// at most one message a second; what is beyond that comes as a digest.
	// +optional
	Teams *ClusterChatReceiver `json:"teams,omitempty"`

	// discord posts to a Discord channel, at most one message in 2 s; what is beyond
	// that comes as a digest.
	// +optional
	Discord *ClusterChatReceiver `json:"discord,omitempty"`

	// telegram has a bot send to a chat of Telegram, at most one message in 3 s; what
	// is beyond that comes as a digest.
	// +optional
	Telegram *ClusterTelegramReceiver `json:"telegram,omitempty"`

	// pagerDuty makes incidents of PagerDuty: one for each group of an alarm, resolved
	// with it; of an alarm without groups, one for each object and reason.
	// +optional
	PagerDuty *ClusterPagerDutyReceiver `json:"pagerDuty,omitempty"`

	// alertmanager makes alerts of an Alertmanager: one for each group of an alarm,
	// resolved with it; of an alarm without groups, one for each object and reason.
	// +optional
	Alertmanager *ClusterAlertmanagerReceiver `json:"alertmanager,omitempty"`

	// email sends e-mail, at most one in 10 s; what is beyond that comes as a digest.
	// +optional
	Email *ClusterEmailReceiver `json:"email,omitempty"`

	// webhook posts JSON to an HTTP server.
	// +optional
	Webhook *ClusterWebhookReceiver `json:"webhook,omitempty"`

	// log writes to the operator's standard output.
	// +optional
	Log *LogReceiver `json:"log,omitempty"`

	// allowedNamespaces selects, by their labels, the namespaces whose Alarms may
	// use this receiver; {} is all. Default: none, only ClusterAlarms.
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`
}

// ClusterAlarmReceiver is where ClusterAlarms, and the Alarms of the namespaces
// that it allows, send their messages.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=calr,categories={bongsu}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAlarmReceiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec ClusterAlarmReceiverSpec `json:"spec"`
	// status is what is.
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
