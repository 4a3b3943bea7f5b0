package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindSecretShare is the kind of the rules of one namespace.
const KindSecretShare = "SecretShare"

// NamespaceGlob matches names of namespaces: "*" is any text, "?" any one
// character.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[-a-z0-9*?]+$`
type NamespaceGlob string

// MetadataGlob matches keys of labels or annotations: "*" is any text, "?" any
// one character.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9._/*?]+$`
type MetadataGlob string

// SecretSource selects Secrets. All given fields must match, and one must be
// given.
type SecretSource struct {
	// names of the Secrets. Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Names []string `json:"names,omitempty"`

	// selector selects Secrets by their labels. Default: any.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// type of the Secrets, for example kubernetes.io/dockerconfigjson. Default:
	// any. Tokens of service accounts, bootstrap tokens and the records of Helm
	// releases are never copied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!(self in ['kubernetes.io/service-account-token', 'bootstrap.kubernetes.io/token', 'helm.sh/release.v1'])",message="Secrets of this type are never copied: name another type"
	Type string `json:"type,omitempty"`
}

// SecretTargets selects namespaces. All given fields must match; the source's
// own namespace is never a target.
type SecretTargets struct {
	// namespaceSelector selects namespaces by their labels. Default: any.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// names of namespaces, or globs. Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Names []NamespaceGlob `json:"names,omitempty"`

	// exclude are names of namespaces, or globs, that are left out whatever else
	// selects them; [] leaves out none.
	// Default: those of Kubernetes itself.
	// +optional
	// +default=["kube-*"]
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Exclude []NamespaceGlob `json:"exclude,omitzero"` // [] must not become the default when it is written
}

// SecretKeyMapping names an entry of a Secret's data and how the copy calls it.
type SecretKeyMapping struct {
	// from is the key in the source. It must be there.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	From string `json:"from"`

	// to is the key in the copy. Default: from.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	To string `json:"to,omitempty"`
}

// DeletionPolicy says what becomes of a copy that is no longer wanted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	// DeletionPolicyDelete: the copy is deleted.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain: the copy stays, as a Secret of its namespace that
	// nobody keeps the same any more.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// SecretCopySpec says what a copy looks like and what becomes of it.
type SecretCopySpec struct {
	// suspend stops all copying, repairing and removing. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// targets are the namespaces that get copies.
	// +required
	Targets SecretTargets `json:"targets"`

	// keys are the entries that are copied, and what the copies call them. A
	// Secret whose type asks for certain keys must have them in the copy too.
	// Default: all, as they are.
	// +optional
	// +listType=map
	// +listMapKey=from
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, self.exists_one(o, (has(o.to) ? o.to : o.from) == (has(k.to) ? k.to : k.from)))",message="two keys would have the same name in the copy: give each its own to"
	Keys []SecretKeyMapping `json:"keys,omitempty"`

	// copyLabels are the labels of the source, or globs, that the copies bear too.
	// Marks of deploy tools are never copied. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	CopyLabels []MetadataGlob `json:"copyLabels,omitempty"`

	// copyAnnotations are the annotations of the source, or globs, that the copies
	// bear too. Marks of deploy tools and kubectl are never copied. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	CopyAnnotations []MetadataGlob `json:"copyAnnotations,omitempty"`

	// deletionPolicy says what becomes of a copy when its source, its namespace's
	// selection or this rule goes.
	// +optional
	// +default="Delete"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SecretShareSpec is what is asked of a SecretShare.
type SecretShareSpec struct {
	// source selects Secrets of the rule's own namespace. Whoever creates or
	// changes the rule must be allowed to get them: those that names lists, or,
	// without names, all Secrets of the namespace.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.names) && self.names.size() > 0 || has(self.type) || has(self.selector) && (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0 || has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",message="select Secrets by names, type or a selector that is not empty"
	Source SecretSource `json:"source"`

	SecretCopySpec `json:",inline"`
}

// SecretShareStatus tells whether the copies are everywhere and, if not, where
// not and why.
type SecretShareStatus struct {
	// observedGeneration is the generation that conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// sources is how many Secrets are shared.
	// +optional
	Sources int32 `json:"sources"`

	// desired is how many copies there should be: one of each Secret in each
	// target namespace.
	// +optional
	Desired int32 `json:"desired"`

	// synced is how many of them are as they should be.
	// +optional
	Synced int32 `json:"synced"`

	// conflicted is how many are not, because a Secret of the same name is
	// somebody else's.
	// +optional
	Conflicted int32 `json:"conflicted"`

	// failed is how many could not be written, or not be removed, for any other
	// reason.
	// +optional
	Failed int32 `json:"failed"`

	// failing are the namespaces where something is amiss, in order of their
	// names; of many, the first 20.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=20
	Failing []SecretShareFailure `json:"failing,omitempty"`
}

// SecretShareFailure says what is amiss in a namespace.
type SecretShareFailure struct {
	// namespace where it is.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// reason is one of those of the Ready condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message is a sentence that says what to do.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}

// SecretShare keeps Secrets of its own namespace the same in other namespaces:
// those that have a SecretShareGrant for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sshare,categories={bongsu,all}
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="SYNCED",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="CONFLICTED",type=integer,JSONPath=`.status.conflicted`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type SecretShare struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec SecretShareSpec `json:"spec"`
	// status is what is.
	// +optional
	Status SecretShareStatus `json:"status,omitempty"`
}

// SecretShareList is a list of SecretShares.
//
// +kubebuilder:object:root=true
type SecretShareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SecretShare `json:"items"`
}
