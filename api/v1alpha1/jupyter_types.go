package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindJupyter is the kind of notebook servers.
const KindJupyter = "Jupyter"

// NotebookContainer is the name of the container that serves the notebook: a
// container of that name in spec.template is merged with it.
const NotebookContainer = "notebook"

// LabelJupyter, with the name of a Jupyter, is on its children and its pod.
const LabelJupyter = Group + "/jupyter"

// AnnotationOwnerUID, with a UID, is on what was made for an object and outlives it: an
// owner reference would have it deleted.
const AnnotationOwnerUID = Group + "/owner-uid"

// AnnotationCulledAt is on a Jupyter that was suspended because nobody used it: when,
// in RFC 3339. It goes when the Jupyter is resumed.
const AnnotationCulledAt = Group + "/culled-at"

// WhenDeleted says what becomes of a claim with its owner.
//
// +kubebuilder:validation:Enum=Retain;Delete
type WhenDeleted string

// Values of WhenDeleted.
const (
	// WhenDeletedRetain: the claim stays. A Jupyter that is later created under the
	// same name takes it up again.
	WhenDeletedRetain WhenDeleted = "Retain"
	// WhenDeletedDelete: the claim goes with the Jupyter.
	WhenDeletedDelete WhenDeleted = "Delete"
)

// ClaimRetentionPolicy says what becomes of the claim.
type ClaimRetentionPolicy struct {
	// whenDeleted says what becomes of the claim when the Jupyter is deleted.
	// +optional
	// +default="Retain"
	WhenDeleted WhenDeleted `json:"whenDeleted,omitempty"`
}

// JupyterStorage is where the files of a notebook are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) != has(self.size)",message="give size for a claim of the Jupyter's own, or existingClaim for one that there is"
// +kubebuilder:validation:XValidation:rule="!has(self.existingClaim) || !has(self.storageClassName) && !has(self.accessModes) && !has(self.retentionPolicy)",message="storageClassName, accessModes and retentionPolicy are for a claim of the Jupyter's own: leave them out with existingClaim"
type JupyterStorage struct {
	// size of a claim that is made for the Jupyter and bears its name. It can grow
	// where the storage class allows it. A claim neither shrinks nor changes otherwise:
	// what cannot be done is told, and the claim stays as it is.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity greater than 0, such as 10Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName of the claim. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	StorageClassName *string `json:"storageClassName,omitempty"`

	// accessModes of the claim. Default: ReadWriteOnce.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteMany;ReadWriteOncePod
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// existingClaim is the name of a claim of the namespace that is used instead of
	// one of the Jupyter's own. It is never changed or deleted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ExistingClaim string `json:"existingClaim,omitempty"`

	// mountPath is where the files are in the notebook's container.
	// +optional
	// +default="/home/jovyan"
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// retentionPolicy says what becomes of a claim of the Jupyter's own.
	// +optional
	RetentionPolicy *ClaimRetentionPolicy `json:"retentionPolicy,omitempty"`
}

// AccessType says how a notebook is reached from outside of the cluster.
//
// +kubebuilder:validation:Enum=None;Ingress
type AccessType string

// Values of AccessType.
const (
	// AccessTypeNone: through its Service alone, by `kubectl port-forward` for example.
	AccessTypeNone AccessType = "None"
	// AccessTypeIngress: through an Ingress.
	AccessTypeIngress AccessType = "Ingress"
)

// JupyterAccess says how a notebook is reached.
//
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'Ingress' ? has(self.host) : !has(self.host) && !has(self.ingressClassName) && !has(self.tlsSecretName)",message="type Ingress needs host; without it, leave out host, ingressClassName and tlsSecretName"
type JupyterAccess struct {
	// type of access. With Ingress, whoever creates or changes the Jupyter must be
	// allowed to create Ingresses.
	// +optional
	// +default="None"
	Type AccessType `json:"type,omitempty"`

	// host is the DNS name under which the notebook is reached.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Host string `json:"host,omitempty"`

	// ingressClassName of the Ingress. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IngressClassName *string `json:"ingressClassName,omitempty"`

	// tlsSecretName is the Secret of type kubernetes.io/tls with the host's
	// certificate. Whoever creates or changes the Jupyter must be allowed to get it.
	// Default: no TLS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// TokenSecretReference names the Secret and key that hold a notebook's token.
type TokenSecretReference struct {
	// name of the Secret, in the namespace of the Jupyter.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// key in the Secret's data.
	// +optional
	// +default="token"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// JupyterAuth says what a visitor must show.
type JupyterAuth struct {
	// tokenSecretRef names the Secret and key that hold the token. It must not be
	// empty. Whoever creates or changes the Jupyter must be allowed to get the
	// Secret. Default: key "token" of a Secret NAME-token with a random token, which
	// is made for the Jupyter.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`
}

// JupyterCulling stops a notebook that nobody uses, by setting spec.suspend. Its
// claim stays. Given, culling is on.
//
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds < self.periodSeconds",message="timeoutSeconds must be less than periodSeconds"
// +kubebuilder:validation:XValidation:rule="self.warningSeconds < self.idleTimeoutSeconds",message="warningSeconds must be less than idleTimeoutSeconds"
type JupyterCulling struct {
	// idleTimeoutSeconds is how long a notebook is idle before it is stopped: no
	// request, no busy kernel, no terminal in use.
	// +optional
	// +default=3600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	IdleTimeoutSeconds int32 `json:"idleTimeoutSeconds,omitempty"`

	// warningSeconds is how long before that a Warning Event says so.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	WarningSeconds *int32 `json:"warningSeconds,omitempty"`

	// periodSeconds is how often the notebook is asked whether it is used.
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long an answer may take.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is after how many failures in a row the server is said not to
	// respond. A notebook that does not respond is never culled.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// JupyterUpdateType says when a change reaches a notebook that runs.
//
// +kubebuilder:validation:Enum=OnRestart;Recreate
type JupyterUpdateType string

// Values of JupyterUpdateType.
const (
	// JupyterUpdateOnRestart: when it is next restarted, by its user, by suspending
	// and resuming it, or because it failed. UpdatePending says that it waits.
	JupyterUpdateOnRestart JupyterUpdateType = "OnRestart"
	// JupyterUpdateRecreate: at once; what runs in it is lost. That is so too when a new
	// version of the operator makes pods otherwise.
	JupyterUpdateRecreate JupyterUpdateType = "Recreate"
)

// JupyterUpdateStrategy says how changes reach a notebook that runs.
type JupyterUpdateStrategy struct {
	// type of the strategy.
	// +optional
	// +default="OnRestart"
	Type JupyterUpdateType `json:"type,omitempty"`
}

// JupyterSpec is what is asked of a Jupyter.
//
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage) || !has(oldSelf.storage) || has(oldSelf.storage.existingClaim)",message="storage cannot be removed: the notebook's files would be out of reach"
type JupyterSpec struct {
	// suspend stops the notebook and keeps its claim. Culling sets it. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// image of the notebook's container. Default: the Jupyter project's minimal
	// notebook, or what the operator's --jupyter-image says.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// resources of the notebook's container. Default: none asked for, no limit.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// serviceAccountName that the notebook runs as. Another than "default" needs the
	// right to create tokens for it, from whoever creates or changes the Jupyter; its
	// token is then mounted. Default: "default", without a token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// template is merged into the pod that is made for the notebook: lists by the
	// names of their entries, the notebook's container being named "notebook". The
	// result must keep to the Pod Security Standard "restricted", and can neither
	// choose its node by name nor mount a token of its service account.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// storage of the notebook's files. Default: none; files are lost with the pod.
	// +optional
	Storage *JupyterStorage `json:"storage,omitempty"`

	// access says how the notebook is reached.
	// +optional
	Access JupyterAccess `json:"access,omitzero"`

	// auth says what a visitor must show.
	// +optional
	Auth JupyterAuth `json:"auth,omitzero"`

	// progressDeadlineSeconds is how long a start may take before the Jupyter is
	// Stalled, where no cause is found earlier.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// schedulingGracePeriodSeconds is how long a pod that no node has room for is
	// Progressing before it is Stalled: an autoscaler may be adding a node.
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SchedulingGracePeriodSeconds *int32 `json:"schedulingGracePeriodSeconds,omitempty"`

	// culling stops the notebook when nobody uses it. Default: off.
	// +optional
	Culling *JupyterCulling `json:"culling,omitempty"`

	// updateStrategy says when a change reaches a notebook that runs.
	// +optional
	UpdateStrategy JupyterUpdateStrategy `json:"updateStrategy,omitzero"`
}

// ProbeResult is what the last probe of a server came to.
type ProbeResult struct {
	// time of the last probe that is told of; of many alike, not every one is.
	// +required
	Time metav1.Time `json:"time"`

	// result: Success or Failure.
	// +required
	// +kubebuilder:validation:Enum=Success;Failure
	Result string `json:"result"`

	// message says what was found, or why nothing was.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// JupyterStatus tells how a notebook fares.
type JupyterStatus struct {
	// observedGeneration is the generation that conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Progressing, Stalled, PodScheduled, StorageReady,
	// AccessReady, ServerResponding, Idle, Suspended, UpdatePending.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	Summary `json:",inline"`

	// startTime is when the present start began, or when what blocked it was removed.
	// Absent if the notebook is not starting.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// url under which the notebook is reached: from outside if access says so, from
	// within the cluster otherwise.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// podName is the notebook's pod, if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// nodeName is where the pod runs.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// readyReplicas is 1 if the notebook's pod is ready, else 0.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// lastActivityTime is when the notebook was last seen to be used; it is written
	// about every five minutes, and only with culling.
	// +optional
	LastActivityTime *metav1.Time `json:"lastActivityTime,omitempty"`

	// cullTime is when the notebook is stopped if nobody uses it until then, or was.
	// +optional
	CullTime *metav1.Time `json:"cullTime,omitempty"`

	// lastProbe is what asking the server whether it is used came to.
	// +optional
	LastProbe *ProbeResult `json:"lastProbe,omitempty"`

	// lastFailure is why the notebook last did not run. It stays when it runs again.
	// +optional
	LastFailure *LastFailure `json:"lastFailure,omitempty"`
}

// Jupyter is a notebook server of one user.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=jupyters,shortName=jup,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="IDLE",type=date,JSONPath=`.status.lastActivityTime`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="NODE",type=string,priority=1,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="CULL TIME",type=string,priority=1,JSONPath=`.status.cullTime`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 52 characters that begins with a letter: its StatefulSet and Service bear the same name"
type Jupyter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +optional
	// +kubebuilder:default={}
	Spec JupyterSpec `json:"spec,omitzero"`
	// status is what is.
	// +optional
	Status JupyterStatus `json:"status,omitempty"`
}

// JupyterList is a list of Jupyters.
//
// +kubebuilder:object:root=true
type JupyterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Jupyter `json:"items"`
}
