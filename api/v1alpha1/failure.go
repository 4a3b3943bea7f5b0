package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FailureObject names the object that failed. It is in the namespace of the object that
// reports the failure, or is cluster-scoped.
type FailureObject struct {
	// kind of the object, for example Pod. At most 63 characters.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object, at most 253 characters.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// LastFailure is the last reason why a workload did not run. It stays after a recovery.
type LastFailure struct {
	// reason is a reason of the Ready condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message describes the problem and what to do.
	// +required
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message"`

	// object that failed.
	// +required
	Object FailureObject `json:"object"`

	// container that failed, if the failure is that of a container.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// exitCode of the container, if it exited.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// firstTime is when this failure was first observed.
	// +required
	FirstTime metav1.Time `json:"firstTime"`

	// lastTime is when this failure last occurred.
	// +required
	LastTime metav1.Time `json:"lastTime"`

	// count is how often this failure occurred. Each crash of a container counts, and each
	// return of the failure after a recovery.
	// +required
	Count int32 `json:"count"`
}
