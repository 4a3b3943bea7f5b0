package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object across kinds. Its text, KIND/NAMESPACE/NAME with an empty
// namespace for objects of the cluster, is what the outbox and the counts use:
// no part can hold a slash.
type Key struct{ Kind, Namespace, Name string }

// String returns KIND/NAMESPACE/NAME.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

// NamespacedName returns the key without its kind.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// ParseKey reads what String wrote.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("key %q is not KIND/NAMESPACE/NAME", s)
	}
	return Key{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, nil
}
