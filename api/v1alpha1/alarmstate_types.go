package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StateMatch selects states of objects. A state begins when the expression is true for an
// object. It ends when the expression is no longer true, when the object is deleted, or when
// the alarm no longer selects it.
//
// A state is sent once, when it has lasted for forSeconds. Its end resolves its group.
type StateMatch struct {
	// resource of the objects.
	// +required
	Resource ChangeResource `json:"resource"`

	// names are globs for the name of the object. "*" matches any text, "?" one character. "!"
	// before a glob excludes names. If there is no other entry, any other name matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self != '!'",message="it excludes nothing: write the text to exclude after the exclamation mark"
	Names []string `json:"names,omitempty"`

	// objectSelector selects the object by its labels. If unset, any object matches.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// expression is a CEL expression with the variables object, now and cluster, and the
	// function condition. It must return a bool. condition("Ready") is the entry of
	// object.status.conditions of this type, with type, status, reason, message and
	// lastTransitionTime. All are empty if there is none. An expression that fails is not
	// true. One with now is evaluated every 30 seconds, and others when the object changes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`

	// forSeconds is how long the expression must be true without interruption, at most a day.
	// Default: 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ForSeconds int32 `json:"forSeconds,omitempty"`

	// endSeconds is how long the expression must not be true before a state that was reported ends, at most a day. A
	// state that comes and goes is then reported once. If the object is deleted, the state ends at once. Default: 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	EndSeconds int32 `json:"endSeconds,omitempty"`
}
