package watch

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Target is what is watched: the objects of a type.
type Target struct {
	Type ResourceType
	// Namespace is where, all of them if empty. It must be empty for a type whose
	// objects have none.
	Namespace string
	// Selector says which, by their labels.
	Selector labels.Selector
}

// String returns a text like "pods in namespace shop with app=web".
func (t Target) String() string {
	s := t.Type.String()
	switch {
	case !t.Type.Namespaced:
	case t.Namespace == metav1.NamespaceAll:
		s += " in all namespaces"
	default:
		s += " in namespace " + t.Namespace
	}
	if !t.Selector.Empty() {
		s += fmt.Sprintf(" with %s", t.Selector)
	}
	return s
}
