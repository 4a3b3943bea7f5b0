package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindClusterSecretShare is the kind of cluster-scoped shares.
const KindClusterSecretShare = "ClusterSecretShare"

// ClusterSecretSource selects Secrets of one namespace. A Secret is selected if it matches
// every field that is set. Set at least one besides the namespace.
type ClusterSecretSource struct {
	// namespace of the Secrets, at most 63 characters. You can create it later.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	SecretSource `json:",inline"`
}

// ClusterSecretShareSpec is the spec of a ClusterSecretShare.
//
// +kubebuilder:validation:XValidation:rule="!has(self.targets.names) || !(self.source.namespace in self.targets.names)",message="spec.targets.names: the source's own namespace cannot be a target: remove it"
type ClusterSecretShareSpec struct {
	// source selects Secrets of one namespace. You must be allowed to get the Secrets in
	// names or, without names, all Secrets of that namespace. You must also be allowed to
	// create Secrets in all namespaces.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.names) && self.names.size() > 0 || has(self.type) || has(self.selector) && (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0 || has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",message="no Secrets selected: set names, type or a selector that is not empty"
	Source ClusterSecretSource `json:"source"`

	SecretCopySpec `json:",inline"`
}

// ClusterSecretShare copies Secrets of one namespace to other namespaces, and keeps the
// copies up to date. It is for administrators: it needs no SecretShareGrant.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=csshare,categories={bongsu}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="SYNCED",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="CONFLICTED",type=integer,JSONPath=`.status.conflicted`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSecretShare struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterSecretShareSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status SecretShareStatus `json:"status,omitempty"`
}

// ClusterSecretShareList is a list of ClusterSecretShares.
//
// +kubebuilder:object:root=true
type ClusterSecretShareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterSecretShare `json:"items"`
}
