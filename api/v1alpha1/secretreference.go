package v1alpha1

// SecretReference names a whole Secret in the receiver's namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SecretKeyReference names one value of a Secret in the receiver's namespace.
type SecretURLReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret's data. Default: url.
	// +optional
	// +default="url"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// SecretKeyReference names one value, whose key has no default, of a Secret in the
// receiver's namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
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

// ClusterSecretKeyReference names one value of a Secret in any namespace.
type ClusterSecretURLReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretURLReference `json:",inline"`
}

// ClusterSecretKeyReference names one value, whose key has no default, of a Secret
// in any namespace.
type ClusterSecretKeyReference struct {
	// namespace of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	SecretKeyReference `json:",inline"`
}

// in is the reference as seen from outside of the namespace; nil stays nil.
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
