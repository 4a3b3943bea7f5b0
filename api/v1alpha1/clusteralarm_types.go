package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindClusterAlarmReceiver is the kind of cluster-scoped receivers.
const KindClusterAlarmReceiver = "ClusterAlarmReceiver"

// KindAlarmReceiver is the kind of namespaced receivers.
const KindAlarmReceiver = "AlarmReceiver"

// ClusterReceiverReference names a receiver of a ClusterAlarm.
type ClusterReceiverReference struct {
	// kind is ClusterAlarmReceiver. Default: ClusterAlarmReceiver.
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

// ClusterAlarmSpec is the spec of a ClusterAlarm.
//
// +kubebuilder:validation:XValidation:rule="has(self.match) || has(self.changes) || has(self.states)",message="the alarm selects nothing: set match, changes or states"
// +kubebuilder:validation:XValidation:rule="!has(self.resolve) || has(self.group)",message="resolve without group: set group, because only groups are resolved"
// +kubebuilder:validation:XValidation:rule="has(self.receivers) || has(self.receiversFrom)",message="the alarm has no receiver: set receivers or receiversFrom"
type ClusterAlarmSpec struct {
	AlarmSpec `json:",inline"`

	// namespaces are globs for the names of the namespaces whose Events can match. "*" matches
	// any text, "?" one character. "!" before a glob excludes namespaces. If there is no other
	// entry, all others can match. If it is set, Events of Nodes and other cluster-scoped objects
	// do not match.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="self != '!'",message="it excludes nothing: write the text to exclude after the exclamation mark"
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelector selects, by their labels, the namespaces whose Events can match. With
	// namespaces, both must select a namespace. If it is set, Events of Nodes and other
	// cluster-scoped objects do not match. If both are unset, all Events of the cluster can match.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// receivers are the receivers of all messages.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Receivers []ClusterReceiverReference `json:"receivers,omitempty"`

	// receiversFrom chooses further receivers by a label of the namespace.
	// +optional
	ReceiversFrom *ReceiversFrom `json:"receiversFrom,omitempty"`
}

// ClusterAlarm sends matching Events of the whole cluster to its receivers. It is for
// administrators.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cal,categories={bongsu}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST-DELIVERY",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="MUTED-UNTIL",type=string,JSONPath=`.status.mutedUntil`
// +kubebuilder:printcolumn:name="MUTE-REASON",type=string,priority=1,JSONPath=`.spec.muteReason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAlarm struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterAlarmSpec `json:"spec"`
	// status is the observed state.
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
