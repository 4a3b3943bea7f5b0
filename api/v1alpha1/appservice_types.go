package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindAppService is the kind of apps.
const KindAppService = "AppService"

// LabelAppService is the label of an AppService's objects and pods. Its value is the name
// of the AppService.
const LabelAppService = Group + "/appservice"

// FinalizerBackup is the finalizer of an AppService with spec.backup or with the deletion
// policy Retain. It is removed when the backup has ended and the children are deleted or
// retained.
const FinalizerBackup = Group + "/backup"

// AppContainer is the name of the container that runs the app. A container of this name in
// spec.template is merged with it.
const AppContainer = "app"

// AppServicePort is a port of the app.
type AppServicePort struct {
	// name of the port in the pod and in the Service, at most 15 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// containerPort is the port of the container, from 1 to 65535.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort"`

	// servicePort is the port of the Service, from 1 to 65535. If unset, it is the same as
	// containerPort.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServicePort int32 `json:"servicePort,omitempty"`

	// protocol of the port: TCP, UDP or SCTP. Default: TCP.
	// +optional
	// +default="TCP"
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// ServiceType is the type of an app's Service.
//
// +kubebuilder:validation:Enum=None;ClusterIP;Headless
type ServiceType string

// Values of ServiceType.
const (
	// ServiceTypeNone: there is no Service.
	ServiceTypeNone ServiceType = "None"
	// ServiceTypeClusterIP: one address for all replicas.
	ServiceTypeClusterIP ServiceType = "ClusterIP"
	// ServiceTypeHeadless: the DNS name resolves to the addresses of all replicas.
	ServiceTypeHeadless ServiceType = "Headless"
)

// ServiceSpec determines the Service of an app.
type ServiceSpec struct {
	// type of the Service: None, ClusterIP or Headless. If unset, ClusterIP if spec.ports
	// is set, otherwise None.
	// +optional
	Type ServiceType `json:"type,omitempty"`
}

// HealthCheckTransport is the path of an HTTP check.
//
// +kubebuilder:validation:Enum=PodIP;APIServer
type HealthCheckTransport string

// Values of HealthCheckTransport.
const (
	// HealthCheckTransportPodIP: directly to the pod.
	HealthCheckTransportPodIP HealthCheckTransport = "PodIP"
	// HealthCheckTransportAPIServer: through the proxy of the API server, for networks in
	// which the operator cannot reach pods.
	HealthCheckTransportAPIServer HealthCheckTransport = "APIServer"
)

// HealthCheckRemedy is the reaction to an unhealthy pod.
//
// +kubebuilder:validation:Enum=None;Restart
type HealthCheckRemedy string

// Values of HealthCheckRemedy.
const (
	// HealthCheckRemedyNone: conditions and Events show it, and nothing else happens.
	HealthCheckRemedyNone HealthCheckRemedy = "None"
	// HealthCheckRemedyRestart: the pod is evicted, and a new pod replaces it.
	HealthCheckRemedyRestart HealthCheckRemedy = "Restart"
)

// ExecCheck runs a command in a container.
type ExecCheck struct {
	// command and its arguments, from 1 to 64 with at most 4,096 characters each. It does
	// not run in a shell. Exit code 0 means success.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command"`

	// container that the command runs in, at most 63 characters. Default: app.
	// +optional
	// +default="app"
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
}

// HealthCheck is a check of each pod of an app. The operator runs it, in addition to the
// probes of the kubelet.
//
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.httpGet)",message="set exactly one of exec and httpGet"
// +kubebuilder:validation:XValidation:rule="!has(self.httpGet) || !has(self.httpGet.host) || self.httpGet.host.size() == 0",message="httpGet.host is not supported, because a check always connects to the pod: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport == 'PodIP' || has(self.httpGet)",message="transport is for httpGet only: remove it"
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds <= self.periodSeconds",message="timeoutSeconds (1 if unset) must not be more than periodSeconds (10 if unset): lower timeoutSeconds, or raise periodSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.maxRestartsPerHour) || has(self.remedy) && self.remedy == 'Restart'",message="maxRestartsPerHour is for remedy Restart only: remove it, or set remedy"
type HealthCheck struct {
	// exec runs a command in the pod. You must be allowed to create pods/exec.
	// +optional
	Exec *ExecCheck `json:"exec,omitempty"`

	// httpGet sends an HTTP GET request to the pod. A status from 200 to 399 means healthy.
	// Redirects are not followed. You cannot set host.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`

	// transport is the path of an HTTP check: PodIP, or APIServer for the proxy of the API
	// server. For APIServer, you must be allowed to get pods/proxy. Default: PodIP.
	// +optional
	// +default="PodIP"
	Transport HealthCheckTransport `json:"transport,omitempty"`

	// initialDelaySeconds is the time between the start of a container and its first check,
	// in seconds. From 0 to 3,600. Default: 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is the interval between two checks of a pod, in seconds. From 1 to
	// 3,600. Default: 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is the longest duration of a check, in seconds. From 1 to 300, and not
	// more than periodSeconds. Default: 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// successThreshold is the number of consecutive successes after which an unhealthy pod
	// is healthy again. From 1 to 100. Default: 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SuccessThreshold int32 `json:"successThreshold,omitempty"`

	// failureThreshold is the number of consecutive failures after which a pod is
	// unhealthy. From 1 to 100. Default: 3.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// remedy is the reaction to an unhealthy pod: None, or Restart to evict it. Default:
	// None.
	// +optional
	// +default="None"
	Remedy HealthCheckRemedy `json:"remedy,omitempty"`

	// maxRestartsPerHour is the largest number of pods of the app that remedy Restart
	// evicts per hour. It limits the damage of a wrong check. From 1 to 60. If unset, 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	MaxRestartsPerHour *int32 `json:"maxRestartsPerHour,omitempty"`
}

// BackupFailurePolicy determines what happens to a deletion whose backup fails.
//
// +kubebuilder:validation:Enum=Block;Abandon
type BackupFailurePolicy string

// Values of BackupFailurePolicy.
const (
	// BackupBlock: the deletion waits until the backup succeeds, or until you set the
	// annotation bongsu.io/abandon-backup. A command is retried with increasing delays. If
	// a Job failed, delete it to run it again.
	BackupBlock BackupFailurePolicy = "Block"
	// BackupAbandon: the deletion continues without a backup.
	BackupAbandon BackupFailurePolicy = "Abandon"
)

// AnnotationAbandonBackup, with the value "true", makes a deletion continue without its
// backup.
const AnnotationAbandonBackup = Group + "/abandon-backup"

// Backup runs when the AppService is deleted, before any of its objects is removed.
//
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.jobTemplate)",message="set exactly one of exec and jobTemplate"
type Backup struct {
	// exec runs a command in one of the pods, at least once. You must be allowed to create
	// pods/exec.
	// +optional
	Exec *ExecCheck `json:"exec,omitempty"`

	// jobTemplate is the template of a Job that runs once. Its pod has the same
	// restrictions as spec.template.
	// +optional
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`

	// deadlineSeconds is the longest duration of the Job, or of one run of the command, in
	// seconds. It also limits the wait for a pod that can run the command. From 1 to
	// 86,400. Default: 600.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// onFailure determines what happens to the deletion if the backup fails: Block, or
	// Abandon to continue without it. A command runs three times before it is abandoned.
	// Default: Block.
	// +optional
	// +default="Block"
	OnFailure BackupFailurePolicy `json:"onFailure,omitempty"`
}

// AppServiceSpec is the spec of an AppService.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topologySpread) || size(self.topologySpread) == 0 || !has(self.template) || !has(self.template.spec) || !has(self.template.spec.topologySpreadConstraints) || size(self.template.spec.topologySpreadConstraints) == 0",message="topologySpread and template.spec.topologySpreadConstraints must not both be set: remove one"
type AppServiceSpec struct {
	// size is the number of replicas, from 0 to 1,000.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Size int32 `json:"size"`

	// suspend stops all replicas. It does not change size. Default: false.
	// +optional
	// +default=false
	Suspend bool `json:"suspend,omitempty"`

	// image of the app container, at most 1,024 characters. If unset, the image that the
	// operator's option --appservice-image names.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// ports of the app, at most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Ports []AppServicePort `json:"ports,omitempty"`

	// serviceAccountName is the service account of the pods, at most 253 characters. If it
	// is not "default", you must be allowed to create tokens for it, and its token is
	// mounted. Default: default.
	// +optional
	// +default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// resources of the app container. If unset, it has no requests and no limits.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// template is merged into the pods of the app. Entries of lists are merged by name: the
	// name of the app container is "app". The result must meet the Pod Security Standard
	// "restricted". It cannot set nodeName, nor mount a token of its service account. If
	// unset, nothing is merged.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// service determines the Service of the app.
	// +optional
	Service ServiceSpec `json:"service,omitzero"`

	// strategy determines how pods are replaced when their template changes. If unset, a few
	// pods are replaced at a time.
	// +optional
	Strategy UpdateStrategy `json:"strategy,omitzero"`

	// minReadySeconds is how long a new pod must be ready until it counts as available, in
	// seconds, from 0 to 300. A rollout continues when it is available. Default: 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// topologySpread spreads the pods over groups of nodes, at most 8 entries. The operator
	// sets the label selector. If unset, the scheduler's own rules apply.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +kubebuilder:validation:MaxItems=8
	TopologySpread []TopologySpread `json:"topologySpread,omitempty"`

	// disruptionBudget creates a PodDisruptionBudget for the pods. You must be allowed to
	// create poddisruptionbudgets. If unset, there is none.
	// +optional
	DisruptionBudget *DisruptionBudget `json:"disruptionBudget,omitempty"`

	// healthCheck checks each pod. If unset, pods are not checked.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// backup runs before the objects of the app are removed. If unset, there is no backup.
	// +optional
	Backup *Backup `json:"backup,omitempty"`

	// deletionPolicy determines what happens to the objects of the app when the AppService
	// is deleted: Delete or Retain. A new AppService of the same name adopts retained
	// objects. Default: Delete.
	// +optional
	// +default="Delete"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PodHealth is the result of a pod's health check.
//
// +kubebuilder:validation:Enum=Unhealthy;Unknown
type PodHealth string

// Values of PodHealth. A healthy pod is not listed.
const (
	// PodUnhealthy: the check failed failureThreshold times in a row.
	PodUnhealthy PodHealth = "Unhealthy"
	// PodHealthUnknown: the check could not run, or has not run yet.
	PodHealthUnknown PodHealth = "Unknown"
)

// PodStatus is the status of a pod that is not healthy.
type PodStatus struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// podUID is the UID of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID"`

	// health of the pod: Unhealthy or Unknown.
	// +required
	Health PodHealth `json:"health"`

	// consecutiveFailures is how many times in a row the check failed, as of lastCheckTime.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures"`

	// lastCheckTime is when the last check began that this entry contains. While health stays
	// the same, the operator updates the entry at most every five minutes.
	// +optional
	LastCheckTime *metav1.Time `json:"lastCheckTime,omitempty"`

	// lastTransitionTime is when health last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// reason is a reason of the Healthy condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message describes the result of the check.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// BackupPhase is the progress of a backup.
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

// BackupStatus is the status of the backup.
type BackupStatus struct {
	// phase of the backup.
	// +required
	Phase BackupPhase `json:"phase"`

	// attempts is the number of attempts so far.
	// +optional
	Attempts int32 `json:"attempts"`

	// startTime is when the first attempt started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the backup ended, whether it succeeded or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message describes the result.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AppServiceStatus is the status of an app.
type AppServiceStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Available, Progressing, Stalled, Degraded, Healthy,
	// EvictionBlocked, BackupSucceeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	Summary `json:",inline"`

	// replicas is how many pods there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is how many of them have the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// availableReplicas is how many of them are available, as the Deployment counts.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// selector selects the pods, for a HorizontalPodAutoscaler.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// nodes lists the names of the app's pods that are not terminating and have not ended, in
	// order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitempty"`

	// healthy is the number of pods whose health check succeeds.
	// +optional
	Healthy int32 `json:"healthy"`

	// unhealthy is the number of pods whose health check fails.
	// +optional
	Unhealthy int32 `json:"unhealthy"`

	// unknown is the number of pods whose health is unknown.
	// +optional
	Unknown int32 `json:"unknown"`

	// podStatuses lists the pods that are not healthy, in order of their names, at most 50.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	PodStatuses []PodStatus `json:"podStatuses,omitempty"`

	// restartTimes lists when healthCheck.remedy evicted pods within the last hour. An eviction
	// without an answer counts. One that the API server refused does not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=60
	RestartTimes []metav1.Time `json:"restartTimes,omitempty"`

	// lastFailure is the last reason why a pod did not run. It stays after a recovery.
	// +optional
	LastFailure *LastFailure `json:"lastFailure,omitempty"`

	// backup is the status of the backup, once the AppService is being deleted.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
}

// AppService is an app with a number of replicas, health checks and a backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,path=appservices,shortName=appsvc,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="SIZE",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="UNHEALTHY",type=integer,priority=1,JSONPath=`.status.unhealthy`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata.name",message="must be a DNS label of at most 52 characters that begins with a letter: choose another name"
type AppService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AppServiceSpec `json:"spec"`
	// status is the observed state.
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
