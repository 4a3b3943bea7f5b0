// Package v1alpha1 holds the kinds of the API group bongsu.io: their fields,
// the rules that the API server enforces on them, and the condition types and
// reasons that their status may carry.
//
// It must not import anything of internal/: clients depend on it alone.
//
// +kubebuilder:object:generate=true
// +groupName=bongsu.io
package v1alpha1
