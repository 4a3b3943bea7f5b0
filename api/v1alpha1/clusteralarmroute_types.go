package v1alpha1

// ReceiversFrom chooses receivers by a label of the namespace that a message is about.
type ReceiversFrom struct {
	// namespaceLabel is the key of the label, for example team. Its value chooses all
	// ClusterAlarmReceivers whose spec.chosenBy contains this label and the value. They are
	// at most 16 for a value, and 100 for the label. Everyone who may update a namespace can
	// change the label. At most 317 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	NamespaceLabel string `json:"namespaceLabel"`

	// default is the receiver of messages for which the label chooses none. This includes
	// objects without a namespace, and Events in another namespace than their object. It
	// needs no spec.chosenBy.
	// +required
	Default ClusterReceiverReference `json:"default"`
}

// ReceiverChoice lets ClusterAlarms choose a receiver by a label.
type ReceiverChoice struct {
	// namespaceLabel is the key of the label, as in spec.receiversFrom of the ClusterAlarm.
	// At most 317 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	NamespaceLabel string `json:"namespaceLabel"`

	// values are the values of the label that choose this receiver. They are no globs. At
	// most 16, of 63 characters each.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values"`

	// allowObjectLabel is true if the same label of the object can choose this receiver, too.
	// It then takes precedence over the label of the namespace. Everyone who may update such
	// objects can use the receiver. Default: false.
	// +optional
	// +default=false
	AllowObjectLabel bool `json:"allowObjectLabel,omitempty"`
}
