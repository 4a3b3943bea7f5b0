package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// SecretShareGrant allows SecretShares of other namespaces to write copies into its
// namespace. Its form is that of the Gateway API's ReferenceGrant. If you delete it, the
// copies are removed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ssgrant,categories={bongsu,all}
// +kubebuilder:printcolumn:name="FROM",type=string,JSONPath=`.spec.from[*].namespace`
// +kubebuilder:printcolumn:name="TO",type=string,JSONPath=`.spec.to[*].name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type SecretShareGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
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
