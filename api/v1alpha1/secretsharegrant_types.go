package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretShareGrantFrom names whose SecretShares may write.
type SecretShareGrantFrom struct {
	// namespace of the SecretShares.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// SecretShareGrantTo names what they may write.
type SecretShareGrantTo struct {
	// name of the Secret, or a glob: "*" is any text, "?" any one character.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-a-z0-9.*?]+$`
	Name string `json:"name"`
}

// SecretShareGrantSpec is what a SecretShareGrant allows.
type SecretShareGrantSpec struct {
	// from are the namespaces whose SecretShares may put copies here.
	// +required
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	From []SecretShareGrantFrom `json:"from"`

	// to are the names that the copies may have. Default: any.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	To []SecretShareGrantTo `json:"to,omitempty"`
}

// SecretShareGrant lets the SecretShares of other namespaces put copies into its
// own. Without it, none may. It has the shape of Gateway API's ReferenceGrant.
// Deleting it withdraws the copies.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ssgrant,categories={bongsu,all}
// +kubebuilder:printcolumn:name="FROM",type=string,JSONPath=`.spec.from[*].namespace`
// +kubebuilder:printcolumn:name="TO",type=string,JSONPath=`.spec.to[*].name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type SecretShareGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is allowed.
	// +required
	Spec SecretShareGrantSpec `json:"spec"`
}

// SecretShareGrantList is a list of SecretShareGrants.
//
// +kubebuilder:object:root=true
type SecretShareGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SecretShareGrant `json:"items"`
}
