package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindJupyter is the kind of notebook servers.
const KindJupyter = "Jupyter"

// NotebookContainer is the name of the container that runs the notebook server. A container
// of this name in spec.template is merged with it.
const NotebookContainer = "notebook"

// VariableNotebookArgs is the variable of the notebook container from which the Jupyter
// project's images read arguments of the server.
const VariableNotebookArgs = "NOTEBOOK_ARGS"

// LabelJupyter is the label of a Jupyter's objects and pod. Its value is the name of the
// Jupyter.
const LabelJupyter = Group + "/jupyter"

// AnnotationOwnerUID contains the UID of the Jupyter or AppService that an object belongs to.
// An object that outlives its owner has no owner reference, which would cause its deletion.
const AnnotationOwnerUID = Group + "/owner-uid"

// AnnotationCulledAt contains the time when a Jupyter was suspended by culling, in RFC 3339.
// AnnotationCulledReason contains why: [ReasonCulledFailing], or nothing if the notebook was
// idle. They are removed when the Jupyter is resumed.
const (
	AnnotationCulledAt     = Group + "/culled-at"
	AnnotationCulledReason = Group + "/culled-reason"
)

// WhenDeleted determines what happens to a claim when its owner is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type WhenDeleted string

// Values of WhenDeleted.
const (
	// WhenDeletedRetain: the claim stays. A new Jupyter of the same name uses it again.
	WhenDeletedRetain WhenDeleted = "Retain"
	// WhenDeletedDelete: the claim is deleted with the Jupyter.
	WhenDeletedDelete WhenDeleted = "Delete"
)

// ClaimRetentionPolicy determines what happens to the claim.
type ClaimRetentionPolicy struct {
	// whenDeleted determines what happens to the claim when the Jupyter is deleted: Retain
	// or Delete. Default: Retain.
	// +optional
	// +default="Retain"
	WhenDeleted WhenDeleted `json:"whenDeleted,omitempty"`
}

// JupyterStorage is the persistent volume claim for the files of a notebook.
//
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) != has(self.size)",message="set either size, to create a claim, or existingClaim, to use one that exists"
// +kubebuilder:validation:XValidation:rule="!has(self.existingClaim) || !has(self.storageClassName) && !has(self.accessModes) && !has(self.retentionPolicy)",message="storageClassName, accessModes and retentionPolicy are for a claim that the Jupyter creates: remove them, or remove existingClaim"
type JupyterStorage struct {
	// size of the claim that is created for the Jupyter with its name, for example 10Gi.
	// You can increase it if the storage class allows that. You cannot decrease it, nor
	// change the other fields of the claim. If you try, the claim stays as it is, and the
	// status shows what is wrong.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE].{4}') && isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('1Mi'))",message="size must be a quantity of at least 1Mi: write for example 10Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName of the claim, at most 253 characters. If unset, the cluster's
	// default storage class is used.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	StorageClassName *string `json:"storageClassName,omitempty"`

	// accessModes of the claim. If unset, ReadWriteOnce.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteMany;ReadWriteOncePod
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// existingClaim is the name of an existing claim in the namespace. It is never changed
	// or deleted. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ExistingClaim string `json:"existingClaim,omitempty"`

	// mountPath is the path of the files in the notebook container, from 2 to 1,024
	// characters. Default: /home/jovyan.
	// +optional
	// +default="/home/jovyan"
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// retentionPolicy determines what happens to the claim that was created for the
	// Jupyter. If unset, the claim is retained.
	// +optional
	RetentionPolicy *ClaimRetentionPolicy `json:"retentionPolicy,omitempty"`
}

// TokenSecretReference names the Secret and the key that contain the token of a notebook.
type TokenSecretReference struct {
	// name of the Secret in the namespace of the Jupyter, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// key in the data of the Secret, at most 253 characters. Default: token.
	// +optional
	// +default="token"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// JupyterAuth determines how users authenticate to a notebook.
type JupyterAuth struct {
	// tokenSecretRef names the Secret and the key that contain the token. The token must
	// not be empty. You must be allowed to get this Secret. If unset, the operator creates
	// a Secret NAME-token whose key "token" contains a random token.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`
}

// CullingActivity determines what counts as use of a notebook.
//
// +kubebuilder:validation:Enum=Kernels;KernelsAndTerminals;Server
type CullingActivity string

// Values of CullingActivity. In each of them, a busy kernel counts as use.
const (
	// CullingActivityKernels: the activity of kernels. A job in a terminal does not count.
	CullingActivityKernels CullingActivity = "Kernels"
	// CullingActivityKernelsAndTerminals: the activity of kernels and terminals. An open
	// terminal counts as use for openTerminalSeconds after its last activity.
	CullingActivityKernelsAndTerminals CullingActivity = "KernelsAndTerminals"
	// CullingActivityServer: all activity that the server reports, also the requests of an
	// open JupyterLab tab. A notebook with such a tab may never become idle.
	CullingActivityServer CullingActivity = "Server"
)

// JupyterCulling stops an idle notebook by setting spec.suspend, and one that fails if
// failingSeconds is set. Its claim stays. If this object is set, even to {}, culling is on.
//
// +kubebuilder:validation:XValidation:rule="!has(self.openTerminalSeconds) || self.activity == 'KernelsAndTerminals'",message="openTerminalSeconds is for activity KernelsAndTerminals only: set this activity, or remove openTerminalSeconds"
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds < self.periodSeconds",message="timeoutSeconds (5 if unset) must be less than periodSeconds (60 if unset): lower timeoutSeconds, or raise periodSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.warningSeconds) || self.warningSeconds < self.idleTimeoutSeconds",message="warningSeconds must be less than idleTimeoutSeconds (3600 if unset): lower warningSeconds, or raise idleTimeoutSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.warningSeconds) || !has(self.failingSeconds) || self.warningSeconds < self.failingSeconds",message="warningSeconds must be less than failingSeconds: lower warningSeconds, or raise failingSeconds"
type JupyterCulling struct {
	// activity determines what counts as use: Kernels, KernelsAndTerminals or Server. A busy
	// kernel always counts. KernelsAndTerminals also counts open terminals, for a limited
	// time. Server counts everything, also an open browser tab. Default:
	// KernelsAndTerminals.
	// +optional
	// +default="KernelsAndTerminals"
	Activity CullingActivity `json:"activity,omitempty"`

	// openTerminalSeconds is how long an open terminal counts as use after its last input
	// or output, in seconds. Only for activity KernelsAndTerminals. From 0 to 604,800 (7
	// days). If unset, it is 86,400 (24 hours).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	OpenTerminalSeconds *int32 `json:"openTerminalSeconds,omitempty"`

	// idleTimeoutSeconds is how long a notebook must be unused before it is stopped, in
	// seconds. From 60 to 2,592,000 (30 days). Default: 3600.
	// +optional
	// +default=3600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	IdleTimeoutSeconds int32 `json:"idleTimeoutSeconds,omitempty"`

	// warningSeconds is how long before the stop a Warning Event announces it, in seconds.
	// From 0 to 86,400, and less than idleTimeoutSeconds and failingSeconds. If unset, it is
	// 300, or half of the other time if this is less.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	WarningSeconds *int32 `json:"warningSeconds,omitempty"`

	// periodSeconds is the interval between two probes of the activity, in seconds. From 10
	// to 3,600. Default: 60.
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long a probe waits for the answer, in seconds. From 1 to 60,
	// and less than periodSeconds. Default: 5.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is the number of consecutive failures after which the condition
	// ServerResponding is False. A notebook that does not respond is never culled. From 1
	// to 100. Default: 3.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// failingSeconds is how long a notebook may fail before it is stopped, in seconds, counted
	// from status.failingSince. It then no longer requests resources, such as a GPU. From 60 to
	// 2,592,000 (30 days). If unset, a notebook that fails is not stopped.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	FailingSeconds *int32 `json:"failingSeconds,omitempty"`
}

// JupyterUpdateType determines when a change is applied to a running notebook.
//
// +kubebuilder:validation:Enum=OnRestart;Recreate
type JupyterUpdateType string

// Values of JupyterUpdateType.
const (
	// JupyterUpdateOnRestart: at its next restart, by its user, by suspending and resuming
	// it, or after a failure. Until then, the condition UpdatePending is True.
	JupyterUpdateOnRestart JupyterUpdateType = "OnRestart"
	// JupyterUpdateRecreate: at once. Running kernels are lost. This also happens when a
	// new version of the operator creates different pods.
	JupyterUpdateRecreate JupyterUpdateType = "Recreate"
)

// JupyterUpdateStrategy determines how changes are applied to a running notebook.
type JupyterUpdateStrategy struct {
	// type of the strategy: OnRestart or Recreate. Default: OnRestart.
	// +optional
	// +default="OnRestart"
	Type JupyterUpdateType `json:"type,omitempty"`
}

// JupyterSpec is the spec of a Jupyter.
//
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage) || !has(oldSelf.storage) || has(oldSelf.storage.existingClaim)",message="storage cannot be removed, because the files would become unreachable: restore it, or create another Jupyter"
// +kubebuilder:validation:XValidation:rule="!has(self.server) || self.server.type != 'HTTP' || !has(self.culling) || has(self.server.activityPath)",message="culling needs server.activityPath, because an HTTP server has no other way to report its use: set activityPath, or remove culling"
// +kubebuilder:validation:XValidation:rule="!has(self.server) || self.server.type != 'HTTP' || !has(self.auth) || !has(self.auth.tokenSecretRef)",message="auth.tokenSecretRef is for a server of type Jupyter: remove it, and give the server its password in spec.template"
type JupyterSpec struct {
	// suspend stops the notebook and keeps its claim. Culling sets it. Default: false.
	// +optional
	// +default=false
	Suspend bool `json:"suspend,omitempty"`

	// image of the notebook container, at most 1,024 characters. If unset, the image that
	// the operator's option --jupyter-image names.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// server describes the server in the notebook container. If unset, it is a Jupyter
	// server.
	// +optional
	Server *JupyterServer `json:"server,omitempty"`

	// resources of the notebook container. If unset, it has no requests and no limits.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// serviceAccountName is the service account of the pod, at most 253 characters. If it
	// is not "default", you must be allowed to create tokens for it, and its token is
	// mounted. Default: default.
	// +optional
	// +default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// template is merged into the pod of the notebook. Entries of lists are merged by name:
	// the name of the notebook container is "notebook". The result must meet the Pod
	// Security Standard "restricted". It cannot set nodeName, nor mount a token of its
	// service account. If unset, nothing is merged.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// storage for the files of the notebook. If unset, files are lost with the pod.
	// +optional
	Storage *JupyterStorage `json:"storage,omitempty"`

	// access determines how users reach the notebook.
	// +optional
	// +default={}
	Access JupyterAccess `json:"access,omitzero"`

	// auth determines how users authenticate.
	// +optional
	Auth JupyterAuth `json:"auth,omitzero"`

	// progressDeadlineSeconds is how long a start can take before the condition Stalled is
	// True, in seconds, if no cause is found earlier. From 1 to 86,400. Default: 600.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// schedulingGracePeriodSeconds is how long a pod can wait for a suitable node before
	// the condition Stalled is True, in seconds. An autoscaler needs this time to add a
	// node. From 0 to 86,400. Default: 60.
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SchedulingGracePeriodSeconds *int32 `json:"schedulingGracePeriodSeconds,omitempty"`

	// culling stops the notebook when it is idle. If unset, culling is off.
	// +optional
	Culling *JupyterCulling `json:"culling,omitempty"`

	// updateStrategy determines when a change is applied to a running notebook.
	// +optional
	// +default={}
	UpdateStrategy JupyterUpdateStrategy `json:"updateStrategy,omitzero"`
}

// ProbeResult is the result of the last probe of a server.
type ProbeResult struct {
	// time of the probe. If the result does not change, it is not updated each time.
	// +required
	Time metav1.Time `json:"time"`

	// result is Success or Failure.
	// +required
	// +kubebuilder:validation:Enum=Success;Failure
	Result string `json:"result"`

	// message describes the activity, or why it is unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// JupyterStatus is the status of a notebook.
type JupyterStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
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

	// url of the notebook: the external one if spec.access.type is Ingress, otherwise the
	// one within the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// podName is the name of the notebook's pod, if it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// nodeName is the name of the node that the pod runs on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// readyReplicas is 1 if the notebook's pod is ready, otherwise 0.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// lastActivityTime is when the notebook was last used. It is updated about every five
	// minutes, and only if spec.culling is set.
	// +optional
	LastActivityTime *metav1.Time `json:"lastActivityTime,omitempty"`

	// idleSinceTime is lastActivityTime while the condition Idle is known, otherwise absent.
	// +optional
	IdleSinceTime *metav1.Time `json:"idleSinceTime,omitempty"`

	// cullTime is when the notebook will be stopped unless it is used before, or was
	// stopped.
	// +optional
	CullTime *metav1.Time `json:"cullTime,omitempty"`

	// failingCullTime is when the notebook will be stopped because it fails, unless it runs
	// again before. A Warning has announced it.
	// +optional
	FailingCullTime *metav1.Time `json:"failingCullTime,omitempty"`

	// lastProbe is the result of the last probe of the server's activity.
	// +optional
	LastProbe *ProbeResult `json:"lastProbe,omitempty"`

	// lastFailure is the last reason why the notebook did not run. It stays after a
	// recovery.
	// +optional
	LastFailure *LastFailure `json:"lastFailure,omitempty"`
}

// Jupyter is a notebook server for one user.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=jupyters,shortName=jup,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="IDLE",type=date,JSONPath=`.status.idleSinceTime`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="NODE",type=string,priority=1,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="CULL TIME",type=string,priority=1,JSONPath=`.status.cullTime`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata.name",message="must be a DNS label of at most 52 characters that begins with a letter: choose another name"
type Jupyter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	// +kubebuilder:default={}
	Spec JupyterSpec `json:"spec,omitzero"`
	// status is the observed state.
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
