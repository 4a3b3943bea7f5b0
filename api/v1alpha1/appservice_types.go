package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindAppService is the kind of apps of so many replicas.
const KindAppService = "AppService"

// LabelAppService, with the name of an AppService, is on its children and its pods.
const LabelAppService = Group + "/appservice"

// FinalizerBackup is on an AppService with spec.backup: it goes when the backup has
// ended.
const FinalizerBackup = Group + "/backup"

// AppContainer is the name of the container that runs the app: a container of that
// name in spec.template is merged with it.
const AppContainer = "app"

// AppServicePort is a port that the app serves on.
type AppServicePort struct {
	// name of the port; the Service's port bears it too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// containerPort is where the app listens.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort"`

	// servicePort is where the Service listens. Default: containerPort.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServicePort int32 `json:"servicePort,omitempty"`

	// protocol of the port.
	// +optional
	// +default="TCP"
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// AppServiceServiceType says what the Service of an app is.
//
// +kubebuilder:validation:Enum=None;ClusterIP;Headless
type ServiceType string

// Values of AppServiceServiceType.
const (
	// AppServiceServiceNone: there is no Service.
	ServiceTypeNone ServiceType = "None"
	// AppServiceServiceClusterIP: one address for all replicas.
	ServiceTypeClusterIP ServiceType = "ClusterIP"
	// AppServiceServiceHeadless: the name stands for the addresses of all replicas.
	ServiceTypeHeadless ServiceType = "Headless"
)

// AppServiceService says how the app is reached.
type ServiceSpec struct {
	// type of the Service. Default: ClusterIP if there are ports, otherwise None.
	// +optional
	Type ServiceType `json:"type,omitempty"`
}

// HealthCheckTransport says which way an HTTP check takes.
//
// +kubebuilder:validation:Enum=PodIP;APIServer
type HealthCheckTransport string

// Values of HealthCheckTransport.
const (
	// HealthCheckTransportPodIP: straight to the pod.
	HealthCheckTransportPodIP HealthCheckTransport = "PodIP"
	// HealthCheckTransportAPIServer: through the API server's proxy, where the operator
	// cannot reach pods.
	HealthCheckTransportAPIServer HealthCheckTransport = "APIServer"
)

// HealthCheckRemedy says what is done about an unhealthy pod.
//
// +kubebuilder:validation:Enum=None;Restart
type HealthCheckRemedy string

// Values of HealthCheckRemedy.
const (
	// HealthCheckRemedyNone: it is told, and nothing is done.
	HealthCheckRemedyNone HealthCheckRemedy = "None"
	// HealthCheckRemedyRestart: the pod is deleted, so that another takes its place.
	HealthCheckRemedyRestart HealthCheckRemedy = "Restart"
)

// ExecCheck runs a command in a container.
type ExecCheck struct {
	// command and its arguments. It is not run in a shell. Exit code 0 is healthy,
	// whatever it prints.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command"`

	// container that it runs in. Default: app.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
}

// HealthCheck looks after each pod of an app from outside, beyond what its kubelet
// sees.
//
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.httpGet)",message="give exactly one of exec and httpGet"
// +kubebuilder:validation:XValidation:rule="!has(self.httpGet) || !has(self.httpGet.host) || self.httpGet.host.size() == 0",message="httpGet.host is refused: a check goes to the pod and nowhere else"
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport == 'PodIP' || has(self.httpGet)",message="transport is for httpGet: leave it out"
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds <= self.periodSeconds",message="timeoutSeconds must not be more than periodSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.maxRestartsPerHour) || has(self.remedy) && self.remedy == 'Restart'",message="maxRestartsPerHour is for remedy Restart: leave it out"
type HealthCheck struct {
	// exec runs a command in the pod. Whoever creates or changes the AppService must be
	// allowed to create pods/exec.
	// +optional
	Exec *ExecCheck `json:"exec,omitempty"`

	// httpGet asks the pod by HTTP. Any answer from 200 to 399 is healthy; redirects
	// are not followed, and host must be left out.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`

	// transport says which way an HTTP check takes.
	// +optional
	Transport HealthCheckTransport `json:"transport,omitempty"`

	// initialDelaySeconds is how long after a container's start it is first checked.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is how often a pod is checked.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long a check may take.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// successThreshold is how many checks in a row make an unhealthy pod healthy.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SuccessThreshold int32 `json:"successThreshold,omitempty"`

	// failureThreshold is how many failures in a row make a pod unhealthy.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// remedy says what is done about an unhealthy pod.
	// +optional
	// +default="None"
	Remedy HealthCheckRemedy `json:"remedy,omitempty"`

	// maxRestartsPerHour bounds the remedy, over all pods of the app: a check that is
	// wrong must not keep the app from running. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	MaxRestartsPerHour *int32 `json:"maxRestartsPerHour,omitempty"`
}

// BackupFailurePolicy says what becomes of a deletion whose backup fails.
//
// +kubebuilder:validation:Enum=Block;Abandon
type BackupFailurePolicy string

// Values of BackupFailurePolicy.
const (
	// BackupBlock: the deletion waits until the backup succeeds, or the annotation
	// bongsu.io/abandon-backup releases it. A command is run again and again, with
	// growing pauses; a Job that failed is made again when somebody deletes it.
	BackupBlock BackupFailurePolicy = "Block"
	// BackupAbandon: the deletion goes on without a backup.
	BackupAbandon BackupFailurePolicy = "Abandon"
)

// AnnotationAbandonBackup, with the value "true", releases an AppService whose
// deletion waits for its backup.
const AnnotationAbandonBackup = Group + "/abandon-backup"

// Backup runs when the AppService is deleted, before anything of it is removed.
//
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.jobTemplate)",message="give exactly one of exec and jobTemplate"
type Backup struct {
	// exec runs a command in one of the pods, at least once. Whoever creates or changes
	// the AppService must be allowed to create pods/exec.
	// +optional
	Exec *ExecCheck `json:"exec,omitempty"`

	// jobTemplate is the Job that is run, once. Its pod is confined as that of
	// template is.
	// +optional
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`

	// deadlineSeconds is how long the Job, or one run of the command, may take, and how
	// long a pod to run the command in is waited for.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// onFailure says what becomes of the deletion if the backup fails: a command that
	// fails is run three times before it is abandoned.
	// +optional
	// +default="Block"
	OnFailure BackupFailurePolicy `json:"onFailure,omitempty"`
}

// AppServiceSpec is what is asked of an AppService.
type AppServiceSpec struct {
	// size is how many replicas there are.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Size int32 `json:"size"`

	// suspend stops all replicas; size stays. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// image of the app's container. Default: memcached, or what the operator's
	// --appservice-image says.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// ports that the app serves on.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Ports []AppServicePort `json:"ports,omitempty"`

	// serviceAccountName that the pods run as. Another than "default" needs the right
	// to create tokens for it, from whoever creates or changes the AppService; its token
	// is then mounted. Default: "default", without a token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// resources of the app's container. Default: none asked for, no limit.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// template is merged into the pods that are made: lists by the names of their
	// entries, the app's container being named "app". The result must keep to the Pod
	// Security Standard "restricted", and can neither choose its node by name nor mount
	// a token of its service account.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// service says how the app is reached.
	// +optional
	Service ServiceSpec `json:"service,omitzero"`

	// healthCheck looks after each pod. Default: none.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// backup runs before the app is removed. Default: none.
	// +optional
	Backup *Backup `json:"backup,omitempty"`

	// deletionPolicy says what becomes of the app when the AppService is deleted. An
	// AppService of the same name takes up what was retained.
	// +optional
	// +default="Delete"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PodHealth says how a pod fares by its health check.
//
// +kubebuilder:validation:Enum=Unhealthy;Unknown
type PodHealth string

// Values of PodHealth. A healthy pod is not listed.
const (
	// PodUnhealthy: the check failed as often as failureThreshold says.
	PodUnhealthy PodHealth = "Unhealthy"
	// PodHealthUnknown: the check could not be made, or not yet.
	PodHealthUnknown PodHealth = "Unknown"
)

// NodeStatus says how a pod fares that is not healthy.
type PodStatus struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// podUID of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID"`

	// health of the pod.
	// +required
	Health PodHealth `json:"health"`

	// consecutiveFailures of its check.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures"`

	// lastTransitionTime is when it came to fare so.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// reason is one of those of the Healthy condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message says what the check came to.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// BackupPhase says how far a backup is.
//
// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Abandoned;Skipped
type BackupPhase string

// Values of BackupPhase.
const (
	BackupRunning   BackupPhase = "Running"
	BackupSucceeded BackupPhase = "Succeeded"
	BackupFailed    BackupPhase = "Failed"
	BackupAbandoned BackupPhase = "Abandoned"
	BackupSkipped   BackupPhase = "Skipped"
)

// BackupStatus tells how the backup fares.
type BackupStatus struct {
	// phase of the backup.
	// +required
	Phase BackupPhase `json:"phase"`

	// attempts that were made.
	// +optional
	Attempts int32 `json:"attempts"`

	// startTime is when the first attempt was made.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when it ended, well or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message says what it came to.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AppServiceStatus tells how an app fares.
type AppServiceStatus struct {
	// observedGeneration is the generation that conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Available, Progressing, Stalled, Degraded, Healthy,
	// BackupSucceeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is how many pods there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods, for a HorizontalPodAutoscaler.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// nodes are the names of the app's pods that are not terminating, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitempty"`

	// healthy is how many pods pass their health check.
	// +optional
	Healthy int32 `json:"healthy"`

	// unhealthy is how many pods fail it.
	// +optional
	Unhealthy int32 `json:"unhealthy"`

	// unknown is of how many pods that cannot be told.
	// +optional
	Unknown int32 `json:"unknown"`

	// podStatuses are the pods that are not healthy, in order of their names; of many,
	// the first 50.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	PodStatuses []PodStatus `json:"podStatuses,omitempty"`

	// restartTimes are when unhealthy pods were replaced within the last hour, by
	// healthCheck.remedy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=60
	RestartTimes []metav1.Time `json:"restartTimes,omitempty"`

	// lastFailure is why a pod last did not run. It stays when it runs again.
	// +optional
	LastFailure *LastFailure `json:"lastFailure,omitempty"`

	// backup tells how the backup fares, once the AppService is being deleted.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
}

// AppService is an app of so many replicas that is looked after.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,path=appservices,shortName=appsvc,categories={bongsu,all}
// +kubebuilder:printcolumn:name="SIZE",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="UNHEALTHY",type=integer,JSONPath=`.status.unhealthy`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 52 characters that begins with a letter: its Deployment and Service bear the same name"
type AppService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec AppServiceSpec `json:"spec"`
	// status is what is.
	// +optional
	Status AppServiceStatus `json:"status,omitempty"`
}

// AppServiceList is a list of AppServices.
//
// +kubebuilder:object:root=true
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppService `json:"items"`
}
