package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxClasses is how many classes are read. A message names some of them.
const maxClasses = 100

// ClassNames returns a function that lists the names of the classes of a kind: StorageClass,
// PriorityClass or RuntimeClass.
func ClassNames(ctx context.Context, reader client.Reader) func(kind string) ([]string, error) {
	versions := map[string]schema.GroupVersion{
		"StorageClass":  {Group: "storage.k8s.io", Version: "v1"},
		"PriorityClass": {Group: "scheduling.k8s.io", Version: "v1"},
		"RuntimeClass":  {Group: "node.k8s.io", Version: "v1"},
	}
	return func(kind string) ([]string, error) {
		var classes metav1.PartialObjectMetadataList
		classes.SetGroupVersionKind(versions[kind].WithKind(kind + "List"))
		err := reader.List(ctx, &classes, client.Limit(maxClasses))
		var names []string
		for i := range classes.Items {
			names = append(names, classes.Items[i].Name)
		}
		return names, err
	}
}
