package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/pkg/finalizer"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// MemcachedSpec is what a user wants.
type MemcachedSpec struct {
	// size is the number of pods. Default: 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Size *int32 `json:"size,omitempty"`

	// image of the container. Default: memcached.
	// +kubebuilder:default="memcached"
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// memoryMegabytes is the memory for items in each pod. Default: 64.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	// +optional
	MemoryMegabytes int32 `json:"memoryMegabytes,omitempty"`

	// backupClaim is the name of a PersistentVolumeClaim. All items are copied to it before the
	// object is deleted. If it is empty, there is no backup.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	BackupClaim string `json:"backupClaim,omitempty"`
}

// MemcachedStatus is what the operator observes.
type MemcachedStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// failingSince is when the present failure began. It lasts until all pods are ready.
	// +optional
	FailingSince metav1.Time `json:"failingSince,omitzero"`

	// size is the number of pods that exist.
	// +optional
	Size int32 `json:"size"`

	// nodes are the names of the pods.
	// +listType=set
	// +optional
	Nodes []string `json:"nodes,omitempty"`

	// selector selects the pods, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// conditions contain Ready. Its reason and message say why the pods do not run.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// pods is the health of each pod.
	// +listType=map
	// +listMapKey=name
	// +optional
	Pods []probe.PodHealth `json:"pods,omitempty"`

	// backup is the progress of the backup before a deletion.
	// +optional
	Backup finalizer.State `json:"backup,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name is longer than 63 characters: choose a shorter name"

// Memcached runs pods of one image.
type Memcached struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user wants.
	// +optional
	// +kubebuilder:default={}
	Spec MemcachedSpec `json:"spec,omitzero"`

	// status is what the operator observes.
	// +optional
	Status MemcachedStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// MemcachedList is a list of Memcached objects.
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Memcached `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(SchemeGroupVersion, &Memcached{}, &MemcachedList{})
		return nil
	})
}
