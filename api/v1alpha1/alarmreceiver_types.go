package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogReceiver writes each message to the operator's standard output.
type LogReceiver struct{}

// AlarmReceiverSpec says where messages go.
//
// +kubebuilder:validation:XValidation:rule="[has(self.slack), has(self.teams), has(self.discord), has(self.telegram), has(self.pagerDuty), has(self.alertmanager), has(self.email), has(self.webhook), has(self.log)].filter(x, x).size() == 1",message="exactly one of slack, teams, discord, telegram, pagerDuty, alertmanager, email, webhook and log must be set"
type AlarmReceiverSpec struct {
	// slack posts to a Slack channel, at most one message a second; what is
	// beyond that comes as a digest.
	// +optional
	Slack *SlackReceiver `json:"slack,omitempty"`

	// teams posts to a channel or chat of Microsoft Teams through a workflow's webhook,
	// at most one message a second; what is beyond that comes as a digest.
	// +optional
	Teams *ChatReceiver `json:"teams,omitempty"`

	// discord posts to a Discord channel, at most one message in 2 s; what is beyond
	// that comes as a digest.
	// +optional
	Discord *ChatReceiver `json:"discord,omitempty"`

	// telegram has a bot send to a chat of Telegram, at most one message in 3 s; what
	// is beyond that comes as a digest.
	// +optional
	Telegram *TelegramReceiver `json:"telegram,omitempty"`

	// pagerDuty makes incidents of PagerDuty: one for each group of an alarm, resolved
	// with it; of an alarm without groups, one for each object and reason.
	// +optional
	PagerDuty *PagerDutyReceiver `json:"pagerDuty,omitempty"`

	// alertmanager makes alerts of an Alertmanager: one for each group of an alarm,
	// resolved with it; of an alarm without groups, one for each object and reason.
	// +optional
	Alertmanager *AlertmanagerReceiver `json:"alertmanager,omitempty"`

	// email sends e-mail, at most one in 10 s; what is beyond that comes as a digest.
	// +optional
	Email *EmailReceiver `json:"email,omitempty"`

	// webhook posts JSON to an HTTP server.
	// +optional
	Webhook *WebhookReceiver `json:"webhook,omitempty"`

	// log writes to the operator's standard output.
	// +optional
	Log *LogReceiver `json:"log,omitempty"`
}

// AlarmReceiver is where the Alarms of its namespace send their messages.
//
// It may not reach loopback, link-local, private or shared addresses unless the
// administrator allows the range.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=alr,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AlarmReceiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec AlarmReceiverSpec `json:"spec"`
	// status is what is.
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
