package v1alpha1

// SecretReference names a Secret in the namespace of the receiver.
type SecretReference struct {
	// name of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SecretURLReference names a key of a Secret in the namespace of the receiver. The key is
// url by default.
type SecretURLReference struct {
	// name of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the data of the Secret, at most 253 characters. Default: url.
	// +optional
	// +default="url"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// SecretKeyReference names a key of a Secret in the namespace of the receiver.
type SecretKeyReference struct {
	// name of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the data of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// ClusterSecretReference names a Secret in any namespace.
type ClusterSecretReference struct {
	// namespace of the Secret, at most 63 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretReference `json:",inline"`
}

// ClusterSecretURLReference names a key of a Secret in any namespace. The key is url by
// default.
type ClusterSecretURLReference struct {
	// namespace of the Secret, at most 63 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretURLReference `json:",inline"`
}

// ClusterSecretKeyReference names a key of a Secret in any namespace.
type ClusterSecretKeyReference struct {
	// namespace of the Secret, at most 63 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretKeyReference `json:",inline"`
}

// in adds the namespace to the reference. It returns nil for nil.
func (r *SecretReference) in(namespace string) *ClusterSecretReference {
	if r == nil {
		return nil
	}
	return &ClusterSecretReference{Namespace: namespace, SecretReference: *r}
}

func (r *SecretURLReference) in(namespace string) *ClusterSecretURLReference {
	if r == nil {
		return nil
	}
	return &ClusterSecretURLReference{Namespace: namespace, SecretURLReference: *r}
}

func (r *SecretKeyReference) in(namespace string) *ClusterSecretKeyReference {
	if r == nil {
		return nil
	}
	return &ClusterSecretKeyReference{Namespace: namespace, SecretKeyReference: *r}
}
