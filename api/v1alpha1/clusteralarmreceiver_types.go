package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterAlarmReceiverSpec is the spec of a ClusterAlarmReceiver.
//
// +kubebuilder:validation:XValidation:rule="!has(self.proxyURL) || !has(self.email) && !has(self.log)",message="email and log use no HTTP proxy: remove proxyURL"
type ClusterAlarmReceiverSpec struct {
	AlarmReceiverSpec `json:",inline"`

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
