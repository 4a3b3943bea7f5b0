package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FailureObject names the object that a failure lies in. It is in the namespace of
// whoever tells of it, or in none.
type FailureObject struct {
	// kind of the object, for example Pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// LastFailure is why something last did not run. It stays when it runs again.
type LastFailure struct {
	// reason is one of those of the Ready condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message is a sentence that says what is wrong and what to do.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// object that the failure lies in.
	// +required
	Object FailureObject `json:"object"`

	// container that failed, if it was one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// exitCode of the container, if it ended.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// firstTime is when this failure was first seen.
	// +required
	FirstTime metav1.Time `json:"firstTime"`

	// lastTime is when it was last seen to happen anew.
	// +required
	LastTime metav1.Time `json:"lastTime"`

	// count is how often it was seen to happen: a container that crashes again, the
	// same failure after a recovery.
	// +required
	Count int32 `json:"count"`
}
