package v1alpha1

import (
	"reflect"
)

// SecretReference names a Secret of a receiver. A ClusterAlarmReceiver must set the namespace. An
// AlarmReceiver uses Secrets of its own namespace only, and its schema has no such field.
type SecretReference struct {
	// namespace of the Secret, at most 63 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SecretURLReference names a key of a Secret of a receiver. The key is url by default.
type SecretURLReference struct {
	SecretReference `json:",inline"`

	// key in the data of the Secret, at most 253 characters. Default: url.
	// +optional
	// +default="url"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// SecretKeyReference names a key of a Secret of a receiver.
type SecretKeyReference struct {
	SecretReference `json:",inline"`

	// key in the data of the Secret, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// SecretReferences returns all references to Secrets that the spec has. Changing one changes the
// spec.
func (s *AlarmReceiverSpec) SecretReferences() []*SecretReference {
	return secretReferences(reflect.ValueOf(s))
}

func secretReferences(v reflect.Value) []*SecretReference {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		if ref, ok := reflect.TypeAssert[*SecretReference](v); ok {
			return []*SecretReference{ref}
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	var all []*SecretReference
	for _, field := range v.Fields() {
		if field.Kind() == reflect.Struct {
			field = field.Addr()
		}
		all = append(all, secretReferences(field)...)
	}
	return all
}
