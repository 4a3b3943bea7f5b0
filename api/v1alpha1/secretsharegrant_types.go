package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindSecretShareGrant is the kind of grants for SecretShares.
const KindSecretShareGrant = "SecretShareGrant"

// SecretShareGrantFrom names a namespace whose SecretShares are allowed.
type SecretShareGrantFrom struct {
	// namespace of the SecretShares, at most 63 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// SecretShareGrantTo names Secrets that are allowed.
type SecretShareGrantTo struct {
	// name of the Secret, or a glob. "*" matches any text, "?" one character. At most 253
	// characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-a-z0-9.*?]+$`
	Name string `json:"name"`
}

// SecretShareGrantSpec is the spec of a SecretShareGrant.
type SecretShareGrantSpec struct {
	// from lists the namespaces whose SecretShares can write copies into this namespace.
	// +required
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	From []SecretShareGrantFrom `json:"from"`

	// to lists the names that the copies can have. If unset, any name is allowed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	To []SecretShareGrantTo `json:"to,omitempty"`
}

// SecretShareGrantStatus shows which copies SecretShares have written because of the grant,
// and which they cannot write.
type SecretShareGrantStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	Summary `json:",inline"`

	// from lists the existing namespaces of spec.from. A namespace that is later created with
	// the same name has another UID, and its SecretShares are not allowed.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=64
	From []NamespaceIdentity `json:"from,omitempty"`

	// synced is the number of copies that are up to date.
	// +optional
	Synced int32 `json:"synced"`

	// waiting is the number of copies that a SecretShare wants to write, but that are not up
	// to date.
	// +optional
	Waiting int32 `json:"waiting"`

	// syncedCopies lists the copies that are up to date, in order of their names, at most 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	SyncedCopies []GrantedCopy `json:"syncedCopies,omitempty"`

	// waitingCopies lists the copies that are not up to date, in order of their names, at
	// most 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	WaitingCopies []WaitingCopy `json:"waitingCopies,omitempty"`
}

// GrantedCopy is a copy of a Secret, and the SecretShare that writes it.
type GrantedCopy struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// secretShare is the SecretShare that writes the copy, as NAMESPACE/NAME.
	// +required
	// +kubebuilder:validation:MaxLength=317
	SecretShare string `json:"secretShare"`
}

// WaitingCopy is a copy that is not up to date, or does not exist.
type WaitingCopy struct {
	GrantedCopy `json:",inline"`

	// reason is a reason of the SecretShare's Ready condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message describes the problem and what to do.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}

// SecretShareGrant allows SecretShares of other namespaces to write copies into its
// namespace. Its form is that of the Gateway API's ReferenceGrant. If you delete it, the
// copies are removed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=ssgrant,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="FROM",type=string,JSONPath=`.spec.from[*].namespace`
// +kubebuilder:printcolumn:name="TO",type=string,JSONPath=`.spec.to[*].name`
// +kubebuilder:printcolumn:name="SYNCED",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="WAITING",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type SecretShareGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec SecretShareGrantSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status SecretShareGrantStatus `json:"status,omitempty"`
}

// SecretShareGrantList is a list of SecretShareGrants.
//
// +kubebuilder:object:root=true
type SecretShareGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SecretShareGrant `json:"items"`
}
