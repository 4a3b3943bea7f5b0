package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSecretKeyReference names one value of a Secret in any namespace.
type ClusterSecretKeyReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretKeyReference `json:",inline"`
}

// ClusterSecretReference names a whole Secret in any namespace.
type ClusterSecretReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretReference `json:",inline"`
}

// ClusterSlackReceiver posts to a Slack channel.
type ClusterSlackReceiver struct {
	// webhookURLSecretRef names the incoming webhook's URL. Whoever creates or
	// changes the receiver must be allowed to get this Secret.
	// +required
	WebhookURLSecretRef ClusterSecretKeyReference `json:"webhookURLSecretRef"`
}

// ClusterWebhookReceiver posts JSON to an HTTP server.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlSecretRef)",message="exactly one of url and urlSecretRef must be set"
type ClusterWebhookReceiver struct {
	// url of the server, http or https, without user or fragment.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="must be an absolute http or https URL, for example https://alarms.example.com/bongsu"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/?#]*@')",message="must not hold a user or password; put the URL in a Secret and name it in urlSecretRef"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not have a fragment: remove # and what follows"
	URL string `json:"url,omitempty"`

	// urlSecretRef names the URL in a Secret. Whoever creates or changes the
	// receiver must be allowed to get this Secret.
	// +optional
	URLSecretRef *ClusterSecretKeyReference `json:"urlSecretRef,omitempty"`

	// headersSecretRef names a Secret of which each entry is sent as a header,
	// for example Authorization. Whoever creates or changes the receiver must be
	// allowed to get this Secret.
	// +optional
	HeadersSecretRef *ClusterSecretReference `json:"headersSecretRef,omitempty"`
}

// ClusterAlarmReceiverSpec says where messages go and who may send them there.
//
// +kubebuilder:validation:XValidation:rule="[has(self.slack), has(self.webhook), has(self.log)].filter(x, x).size() == 1",message="exactly one of slack, webhook and log must be set"
type ClusterAlarmReceiverSpec struct {
	// slack posts to a Slack channel, at most one message a second; what is
	// beyond that comes as a digest.
	// +optional
	Slack *ClusterSlackReceiver `json:"slack,omitempty"`

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
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
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
