package check

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/pkg/children"
)

const (
	kindCRD     = "CustomResourceDefinition"
	kindPolicy  = "ValidatingAdmissionPolicy"
	kindBinding = "ValidatingAdmissionPolicyBinding"
)

// needed are API groups that something of ours is of, or reads; each has been served in
// this version since the oldest API server that is supported.
var needed = []schema.GroupVersion{
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiextensions.k8s.io", Version: "v1"},
	{Group: "authorization.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "policy", Version: "v1"},
}

// neededKinds are what a server of that group may still lack.
var neededKinds = map[schema.GroupVersion][]string{
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {kindPolicy, kindBinding},
}

func (c *Checker) apis() preflight.Finding {
	var missing []string
	for _, group := range needed {
		served, err := c.discovery.ServerResourcesForGroupVersion(group.String())
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, group.String())
			continue
		case err != nil:
			return preflight.Unknown("required APIs", err)
		}
		for _, kind := range neededKinds[group] {
			if !slices.ContainsFunc(served.APIResources, kindIs(kind)) {
				missing = append(missing, group.String()+" "+kind)
			}
		}
	}
	return preflight.APIs(missing)
}

// installed tells whether any of our kinds or policies is there, or the namespace's
// account: what cannot be read counts as there, so that it is said below.
func (c *Checker) installed(ctx context.Context, objects []*unstructured.Unstructured) bool {
	for _, o := range objects {
		if !slices.Contains([]string{kindCRD, kindPolicy, "ServiceAccount"}, o.GetKind()) {
			continue
		}
		if _, err := c.get(ctx, o); err == nil || !isAbsent(err) {
			return true
		}
	}
	return false
}

// compare tells of the objects of some kinds whether they are there as they should be.
func (c *Checker) compare(ctx context.Context, check string, objects []*unstructured.Unstructured, kinds ...string) preflight.Finding {
	var missing, different []string
	for _, o := range objects {
		if !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		found, err := c.get(ctx, o)
		switch {
		case isAbsent(err):
			missing = append(missing, o.GetKind()+" "+o.GetName())
			continue
		case err != nil:
			return preflight.Unknown(check, err)
		}
		same, err := asWanted(found, o)
		if err != nil {
			return preflight.Unknown(check, err)
		}
		if !same {
			different = append(different, o.GetKind()+" "+o.GetName())
		}
	}
	return preflight.Objects(check, missing, different)
}

func (c *Checker) get(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(like.GroupVersionKind())
	return found, c.client.Get(ctx, client.ObjectKeyFromObject(like), found)
}

// isAbsent also of what is of a kind that there is not.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// asWanted tells whether an object's spec is as wanted, but for what the API server
// filled in. Of a kind, the fields are compared both ways: it knows none that this
// version does not, either.
func asWanted(found, wanted *unstructured.Unstructured) (bool, error) {
	f, err := decoded(found.Object["spec"])
	if err != nil {
		return false, err
	}
	w, err := decoded(wanted.Object["spec"])
	if err != nil {
		return false, err
	}
	if wanted.GetKind() == kindCRD && !children.Contains(schemas(w), schemas(f)) {
		return false, nil
	}
	return children.Contains(f, w), nil
}

// decoded brings numbers to one type.
func decoded(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(raw, &out)
}

// schemas are the schemas of a kind's versions.
func schemas(spec any) []any {
	fields, _ := spec.(map[string]any)
	versions, _, _ := unstructured.NestedSlice(fields, "versions")
	var all []any
	for _, v := range versions {
		version, _ := v.(map[string]any)
		all = append(all, version["schema"])
	}
	return all
}
