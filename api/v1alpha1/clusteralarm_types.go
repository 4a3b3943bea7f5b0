package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindClusterAlarmReceiver is the kind of the receivers of the whole cluster.
const KindClusterAlarmReceiver = "ClusterAlarmReceiver"

// KindAlarmReceiver is the kind of the receivers of one namespace.
const KindAlarmReceiver = "AlarmReceiver"

// ClusterReceiverReference names a receiver of a ClusterAlarm.
type ClusterReceiverReference struct {
	// kind is ClusterAlarmReceiver.
	// +optional
	// +default="ClusterAlarmReceiver"
	// +kubebuilder:validation:Enum=ClusterAlarmReceiver
	Kind string `json:"kind,omitempty"`

	// name of the receiver.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ClusterAlarmSpec is what is asked of a ClusterAlarm.
type ClusterAlarmSpec struct {
	AlarmSpec `json:",inline"`

	// namespaceSelector selects the namespaces whose Events are looked at, by
	// their labels. Default: all, and the Events of Nodes and other objects
	// without a namespace. With a selector, the latter are left out.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// receivers get the messages.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Receivers []ClusterReceiverReference `json:"receivers"`
}

// ClusterAlarm sends the Events of the whole cluster that match to its
// receivers. It is for administrators.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cal,categories={bongsu}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAlarm struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec ClusterAlarmSpec `json:"spec"`
	// status is what is.
	// +optional
	Status AlarmStatus `json:"status,omitempty"`
}

// ClusterAlarmList is a list of ClusterAlarms.
//
// +kubebuilder:object:root=true
type ClusterAlarmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAlarm `json:"items"`
}
