package explain

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An object that is not read because no request is left is not one that does not exist.
func TestWhatIsNotReadForLackOfRequestsIsNotMissing(t *testing.T) {
	for name, s := range readScenes(t) {
		e, namespace := s.cluster(t), "shop"
		if s.Namespace != nil {
			namespace = *s.Namespace
		}
		resource, object, _ := strings.Cut(s.Target, " ")
		kind, err := e.kindOf(schema.ParseGroupResource(resource))
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := e.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			namespace = ""
		}
		complete, err := e.Explain(t.Context(), mapping.Resource.GroupResource(), namespace, object)
		if err != nil {
			t.Fatal(err)
		}
		for most := range 8 {
			x, err := e.sending(most).explain(t.Context(), mapping, namespace, object, newWalk(newReference(kind.GroupKind(), namespace, object, "")))
			switch {
			case most == 0 && err != nil && !apierrors.IsNotFound(err): // not even the object
			case err != nil:
				t.Errorf("%s, %d requests: %v", name, most, err)
			case x.Cause != nil && strings.Contains(x.Cause.Message, "does not exist") && !strings.Contains(written(t, complete), "does not exist"):
				t.Errorf("%s, %d requests: %s", name, most, x.Cause.Message)
			}
		}
	}
}
