package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangeMatch selects changes of objects. A change matches if it matches every field that is
// set.
//
// A change is a difference in one of the fields. Another resourceVersion, a new list of the
// operator, and metadata.managedFields are none. Several changes while no operator runs are
// one, from the last known values to the present ones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operations) || 'Update' in self.operations || !has(self.fields)",message="fields without the operation Update: only an update changes fields"
type ChangeMatch struct {
	// resource of the objects.
	// +required
	Resource ChangeResource `json:"resource"`

	// operations that match: Create, Update or Delete. Default: ["Update"].
	// +optional
	// +listType=set
	// +default=["Update"]
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Operations []ChangeOperation `json:"operations,omitempty"`

	// names are globs for the name of the object. "*" matches any text, "?" one character. "!"
	// before a glob excludes names. If there is no other entry, any other name matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self != '!'",message="it excludes nothing: write the text to exclude after the exclamation mark"
	Names []string `json:"names,omitempty"`

	// objectSelector selects the object by its labels, those before the change if it was
	// deleted. If unset, any object matches.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// fields are the paths of fields. An update matches if one of them differs. [*] means all
	// entries of a list, and ["KEY"] an entry of a map whose key contains dots. Examples:
	// spec.replicas, spec.template.spec.containers[*].image, metadata.labels["team"]. If
	// unset, all top-level fields except metadata and status.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Fields []string `json:"fields,omitempty"`

	// expression is a CEL expression with the variables object, oldObject, changed, manager
	// and cluster. It must return a bool. oldObject is null unless the operation is Update.
	// changed lists the differences, each with field, from and to. manager is the field
	// manager of the newest write, empty if it is unknown. If unset, there is no further
	// condition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
}

// ChangeResource names a resource of the API server.
//
// +kubebuilder:validation:XValidation:rule="self.apiGroup != 'coordination.k8s.io' && self.apiGroup != 'events.k8s.io' && !(self.apiGroup == 'discovery.k8s.io' && self.resource == 'endpointslices') && !(size(self.apiGroup) == 0 && self.resource in ['events', 'endpoints'])",message="this resource changes all the time or is no object of a user: use spec.match for Events, and another resource instead of leases and endpoints"
type ChangeResource struct {
	// apiGroup of the resource, for example apps, or "" for the core group.
	// +optional
	// +default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	APIGroup string `json:"apiGroup"`

	// resource is the lowercase plural, for example deployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// ChangeOperation is what happened to an object.
// +kubebuilder:validation:Enum=Create;Update;Delete
type ChangeOperation string

// The operations that change objects.
const (
	ChangeCreate ChangeOperation = "Create"
	ChangeUpdate ChangeOperation = "Update"
	ChangeDelete ChangeOperation = "Delete"
)
