package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// pagedServer answers each list with one object at a time, and counts the requests.
type pagedServer struct {
	apiClient
	requests int
}

func (s *pagedServer) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	s.requests++
	return s.apiClient.Get(ctx, key, o, opts...)
}

func (s *pagedServer) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	s.requests++
	start, _ := strconv.Atoi((&client.ListOptions{}).ApplyOptions(opts).Continue) // 0 for the first page
	if err := s.apiClient.List(ctx, list, append(slices.Clone(opts), client.Continue(""))...); err != nil {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	list.SetContinue("")
	if start+1 < len(all) {
		list.SetContinue(strconv.Itoa(start + 1))
	}
	return meta.SetList(list, all[min(start, len(all)):min(start+1, len(all))])
}

// isCut reports whether an answer lists what was not read because no request was left.
func isCut(x *Explanation) bool {
	return slices.ContainsFunc(x.NotChecked, func(u NotChecked) bool { return strings.Contains(u.Why, "an answer sends at most 40 requests") })
}

// An answer sends at most 40 requests, also if a list has many pages, and says if it needed more. Those of all scenes
// are complete.
func TestAnAnswerSendsAtMost40Requests(t *testing.T) {
	const most, pods = 40, 60
	all, cut := allScenes(t), 0
	large := `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {rules: [{http: {paths: [`
	for _, name := range []string{"a", "b", "c"} { // the pods of each are listed
		large += "{path: /" + name + ", pathType: Prefix, backend: {service: {name: " + name + ", port: {number: 80}}}}, "
	}
	large += "]}}]}"
	for _, name := range []string{"a", "b", "c"} {
		large += "\n---\n" + strings.Replace(webService, "name: web,", "name: "+name+",", 1)
	}
	for i := range pods {
		large += "\n---\n" + strings.Replace(crashedPod, "name: web-1", fmt.Sprint("name: web-", i), 1)
	}
	all["many pods"] = scene{Objects: large}
	for name, s := range all {
		e := s.cluster(t)
		server := &pagedServer{apiClient: e.client}
		paged := *e.Explainer
		paged.client, paged.objects = server, server
		for _, o := range parse(t, e.client.Scheme(), s.Objects) {
			gvk, err := e.client.GroupVersionKindFor(o)
			if err != nil {
				t.Fatal(err)
			}
			resource, ok := resourceOf(e, gvk)
			if !ok {
				continue
			}
			x, err := e.Explain(t.Context(), resource, o.GetNamespace(), o.GetName())
			if err != nil || isCut(x) {
				t.Errorf("%s: the answer for %s %s is not complete: %v", name, gvk.Kind, o.GetName(), err)
			}
			server.requests = 0
			x, err = paged.Explain(t.Context(), resource, o.GetNamespace(), o.GetName())
			if err != nil || server.requests > most || isCut(x) && server.requests < most {
				t.Errorf("%s: %d requests for %s %s: %v", name, server.requests, gvk.Kind, o.GetName(), err)
			}
			if err == nil && isCut(x) {
				cut++
			}
		}
	}
	if cut == 0 {
		t.Error("no answer needs more requests")
	}
}
