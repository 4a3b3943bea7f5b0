package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindSecretShare is the kind of namespaced shares.
const KindSecretShare = "SecretShare"

// NamespaceGlob is a glob for the names of namespaces, at most 63 characters. "*" matches
// any text, "?" one character.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[-a-z0-9*?]+$`
type NamespaceGlob string

// MetadataGlob is a glob for the keys of labels or annotations, at most 317 characters.
// "*" matches any text, "?" one character.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9._/*?]+$`
type MetadataGlob string

// SecretSource selects Secrets. A Secret is selected if it matches every field that is
// set. Set at least one.
type SecretSource struct {
	// names of the Secrets. If unset, any name matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Names []string `json:"names,omitempty"`

	// selector selects Secrets by their labels. If unset, any labels match.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// type of the Secrets, for example kubernetes.io/dockerconfigjson. If unset, any type
	// matches. Tokens of service accounts, bootstrap tokens and Helm releases are never
	// copied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!(self in ['kubernetes.io/service-account-token', 'bootstrap.kubernetes.io/token', 'helm.sh/release.v1'])",message="Secrets of this type are never copied: set another type"
	Type string `json:"type,omitempty"`
}

// SystemNamespaces determines whether the namespaces of Kubernetes get copies.
//
// +kubebuilder:validation:Enum=Exclude;Include
type SystemNamespaces string

// Values of SystemNamespaces.
const (
	// SystemNamespacesExclude: no namespace whose name begins with kube- gets copies.
	SystemNamespacesExclude SystemNamespaces = "Exclude"
	// SystemNamespacesInclude: these namespaces get copies if the other fields select them.
	SystemNamespacesInclude SystemNamespaces = "Include"
)

// SecretTargets selects namespaces. A namespace is selected if it matches every field that
// is set. The source's namespace is never a target.
//
// +kubebuilder:validation:XValidation:rule="!has(self.names) || self.systemNamespaces == 'Include' || !self.names.exists(n, n.startsWith('kube-'))",message="names contains a system namespace, which is excluded: remove it, or set systemNamespaces to Include"
type SecretTargets struct {
	// namespaceSelector selects namespaces by their labels. If unset, any labels match.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// names of the namespaces, or globs. If unset, any name matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Names []NamespaceGlob `json:"names,omitempty"`

	// exclude lists the names of namespaces, or globs, that get no copies even if the other
	// fields select them. If unset, none are excluded but system namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Exclude []NamespaceGlob `json:"exclude,omitempty"`

	// systemNamespaces determines whether namespaces whose name begins with kube- can get
	// copies: Exclude or Include. Default: Exclude.
	// +optional
	// +default="Exclude"
	SystemNamespaces SystemNamespaces `json:"systemNamespaces,omitempty"`
}

// SecretKeyMapping selects a key of a Secret's data and names it in the copy.
type SecretKeyMapping struct {
	// from is the key in the source. The source must have it. At most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	From string `json:"from"`

	// to is the key in the copy. If unset, it is the same as from. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	To string `json:"to,omitempty"`
}

// SecretCopyName determines the names of copies. Use it if the name of a source is taken in
// a target namespace.
//
// +kubebuilder:validation:MinProperties=1
type SecretCopyName struct {
	// prefix is put before the name of the source. At most 63 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9.]*$`
	Prefix string `json:"prefix,omitempty"`

	// suffix is put after the name of the source. At most 63 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[-a-z0-9.]*[a-z0-9]$`
	Suffix string `json:"suffix,omitempty"`

	// rename contains the whole names of the copies of single Secrets. They get no prefix
	// and no suffix.
	// +optional
	// +listType=map
	// +listMapKey=from
	// +kubebuilder:validation:MaxItems=32
	Rename []SecretRename `json:"rename,omitempty"`
}

// SecretRename is the name of the copies of one Secret.
type SecretRename struct {
	// from is the name of the source.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	From string `json:"from"`

	// to is the name of its copies.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	To string `json:"to"`
}

// DeletionPolicy determines what happens to an object that is no longer wanted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	// DeletionPolicyDelete: the object is deleted.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain: the object stays, and the operator no longer changes it.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// SecretCopySpec determines the namespaces and the content of copies, and their deletion.
type SecretCopySpec struct {
	// suspend stops the operator from writing, repairing and removing copies. Default:
	// false.
	// +optional
	// +default=false
	Suspend bool `json:"suspend,omitempty"`

	// targets selects the namespaces that get copies.
	// +required
	Targets SecretTargets `json:"targets"`

	// keys selects the keys that are copied, and names them in the copies. If the type of a
	// Secret requires certain keys, the copy must have them too. If unset, all keys are
	// copied with their names.
	// +optional
	// +listType=map
	// +listMapKey=from
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, self.exists_one(o, (has(o.to) ? o.to : o.from) == (has(k.to) ? k.to : k.from)))",message="two keys have the same name in the copy: set a different to for each"
	Keys []SecretKeyMapping `json:"keys,omitempty"`

	// copyName determines the names of the copies. If unset, a copy has the name of its
	// source.
	// +optional
	CopyName *SecretCopyName `json:"copyName,omitempty"`

	// copyLabels are the keys of labels, or globs, that are copied from the source. Labels
	// that deployment tools use for tracking are copied only if a ClusterSecretShare lists their whole
	// keys. Labels of Bongsu and kubectl are never copied. If unset, none are copied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	CopyLabels []MetadataGlob `json:"copyLabels,omitempty"`

	// copyAnnotations are the keys of annotations, or globs, that are copied from the
	// source. Annotations that deployment tools use for tracking are copied only if a
	// ClusterSecretShare lists their whole keys. Annotations of Bongsu and kubectl are never copied. If
	// unset, none are copied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	CopyAnnotations []MetadataGlob `json:"copyAnnotations,omitempty"`

	// deletionPolicy determines what happens to a copy that is no longer wanted: Delete or
	// Retain. This is the case when its source or this object is deleted, or its namespace
	// is no longer selected. Default: Delete.
	// +optional
	// +default="Delete"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// sourceDeletionGraceSeconds is how long copies stay after their source is deleted, in
	// seconds, from 0 to 86400. If a source with its name is created in this time, the copies are
	// updated. 0 removes the copies at once. Default: 30.
	// +optional
	// +default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SourceDeletionGraceSeconds *int32 `json:"sourceDeletionGraceSeconds,omitempty"`
}

// SecretShareSpec is the spec of a SecretShare.
type SecretShareSpec struct {
	// source selects Secrets in the namespace of the SecretShare. You must be allowed to
	// get the Secrets in names or, without names, all Secrets of the namespace.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.names) && self.names.size() > 0 || has(self.type) || has(self.selector) && (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0 || has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",message="no Secrets selected: set names, type or a selector that is not empty"
	Source SecretSource `json:"source"`

	SecretCopySpec `json:",inline"`
}

// SecretShareStatus shows how many copies are up to date, and the namespaces with problems.
type SecretShareStatus struct {
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

	// sourceNamespace is the namespace of a ClusterSecretShare's sources, if it exists. No
	// Secret is copied from a namespace that is later created with the same name.
	// +optional
	SourceNamespace *NamespaceIdentity `json:"sourceNamespace,omitempty"`

	// sources is the number of Secrets that are shared.
	// +optional
	Sources int32 `json:"sources"`

	// desired is the number of copies that must exist: one of each Secret in each target
	// namespace.
	// +optional
	Desired int32 `json:"desired"`

	// synced is the number of desired copies that are up to date.
	// +optional
	Synced int32 `json:"synced"`

	// conflicted is the number of desired copies that cannot be written, because another
	// Secret has the same name.
	// +optional
	Conflicted int32 `json:"conflicted"`

	// failed is the number of copies that could not be written or removed for another
	// reason.
	// +optional
	Failed int32 `json:"failed"`

	// expiring is the number of copies whose source was deleted. They are removed at the end of
	// the grace, unless the source is created again.
	// +optional
	Expiring int32 `json:"expiring"`

	// failing lists the namespaces with problems, in order of their names, at most 20.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=20
	Failing []SecretShareFailure `json:"failing,omitempty"`
}

// NamespaceIdentity identifies a namespace, also if it is deleted and created again.
type NamespaceIdentity struct {
	// namespace is the name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// uid of the namespace.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`

	// generation is the generation of the spec for which the UID was recorded. A change of
	// the spec records it again.
	// +required
	Generation int64 `json:"generation"`
}

// SecretShareFailure describes a problem in a namespace.
type SecretShareFailure struct {
	// namespace with the problem.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// reason is a reason of the Ready condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message describes the problem and what to do.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}

// SecretShare copies Secrets of its namespace to other namespaces, and keeps the copies up
// to date. Each of these namespaces needs a SecretShareGrant for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sshare,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="SYNCED",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="CONFLICTED",type=integer,JSONPath=`.status.conflicted`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type SecretShare struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec SecretShareSpec `json:"spec"`
	// status is the observed state.
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
