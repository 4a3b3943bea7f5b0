// Package v1alpha1 contains the kinds of the API group bongsu.io: their fields, their
// validation rules, and the types and reasons of their conditions.
//
// It imports no other package of this module, so that clients depend on it alone.
//
// +kubebuilder:object:generate=true
// +groupName=bongsu.io
package v1alpha1
