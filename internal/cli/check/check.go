// Package check implements `bongsu check`. It reads a cluster with the permissions of the
// user, and package preflight evaluates the results. It changes nothing and reads no
// Secret.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/policies/specs"
	"github.com/bongsu-io/bongsu/pkg/children"
)

// Checker checks one cluster.
type Checker struct {
	client        client.Client
	discovery     discovery.DiscoveryInterface
	authorization authorizationv1client.AuthorizationV1Interface
	clock         clock.PassiveClock
	namespace     string
	// ahead is how far the API server's clock is ahead of the local clock.
	ahead time.Duration
}

// New returns a Checker for an installation in a namespace.
func New(cfg *rest.Config, clk clock.PassiveClock, namespace string) (*Checker, error) {
	c := &Checker{clock: clk, namespace: namespace}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return clockRecorder{next, c} })
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	if c.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(cfg); err != nil {
		return nil, err
	}
	c.authorization, err = authorizationv1client.NewForConfig(cfg)
	return c, err
}

// Run runs all checks. It returns an error if the cluster does not answer.
func (c *Checker) Run(ctx context.Context) ([]preflight.Result, error) {
	server, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	objects, err := config.Objects(feature.All())
	if err != nil {
		return nil, err
	}
	installed := c.installed(ctx, objects)
	results := []preflight.Result{
		preflight.Server(server.GitVersion),
		c.apis(),
		preflight.Skew(c.ahead),
		c.callerPermissions(ctx, objects, installed),
		preflight.Installed(installed, c.namespace),
	}
	if installed {
		return append(results, c.installation(ctx, objects)...), nil
	}
	return append(results, c.surplus(ctx, nil, false)), nil
}

func (c *Checker) installation(ctx context.Context, objects []*unstructured.Unstructured) []preflight.Result {
	workload, known := c.workload(ctx)
	config.Confine(objects, c.userName(workload), workload.protected())
	labels, labelsErr := c.namespaceLabels(ctx)
	running := []preflight.Result{
		evaluate("workload", known, func() preflight.Result { return preflight.Running(workload.summary()) }),
		c.leader(ctx),
	}
	if workload == nil && known == nil && labels[options.LocalLabel] != "" {
		running = []preflight.Result{preflight.Local()}
	}
	return slices.Concat([]preflight.Result{
		evaluate("Pod Security", labelsErr, func() preflight.Result { return preflight.Namespace(c.namespace, labels) }),
		c.compare(ctx, "kinds", objects, kindCRD),
		c.compare(ctx, "admission policies", objects, kindPolicy, kindBinding),
		c.operatorPermissions(ctx, workload),
		evaluate("surplus permissions", known, func() preflight.Result { return c.surplus(ctx, workload, true) }),
	}, running, c.receivers(ctx))
}

// evaluate returns the result of check, or Unknown if there is an error.
func evaluate(name string, err error, check func() preflight.Result) preflight.Result {
	if err != nil {
		return preflight.Unknown(name, err)
	}
	return check()
}

// clockRecorder records the API server's time from the Date header of each response.
type clockRecorder struct {
	next    http.RoundTripper
	checker *Checker
}

// RoundTrip implements http.RoundTripper.
func (d clockRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		// The header has a resolution of one second.
		d.checker.ahead = date.Sub(d.checker.clock.Now().Truncate(time.Second))
	}
	return response, nil
}

// now returns the API server's time.
func (c *Checker) now() time.Time { return c.clock.Now().Add(c.ahead) }

const (
	kindCRD     = "CustomResourceDefinition"
	kindPolicy  = "ValidatingAdmissionPolicy"
	kindBinding = "ValidatingAdmissionPolicyBinding"
)

// needed are the API groups that Bongsu uses. All supported API servers serve them in
// these versions.
var needed = []schema.GroupVersion{
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiextensions.k8s.io", Version: "v1"},
	{Group: "authorization.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "policy", Version: "v1"},
}

// neededKinds are kinds that a server may lack although it serves the group.
var neededKinds = map[schema.GroupVersion][]string{
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {kindPolicy, kindBinding},
}

func (c *Checker) apis() preflight.Result {
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

// installed reports whether a kind, a policy or the service account of Bongsu exists. An
// object that cannot be read counts as installed, so that later checks report it.
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

// compare compares the objects of some kinds with their manifests.
func (c *Checker) compare(ctx context.Context, check string, objects []*unstructured.Unstructured, kinds ...string) preflight.Result {
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

// isAbsent reports whether the object or its kind does not exist.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// asWanted reports whether an object has the wanted spec. Defaults that the API server
// added are ignored. In a policy, and in the schema of a CustomResourceDefinition, additional
// fields are a difference, too.
func asWanted(found, wanted *unstructured.Unstructured) (bool, error) {
	if kind := wanted.GetKind(); kind == kindPolicy || kind == kindBinding {
		return specs.Same(found, wanted)
	}
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

// decoded converts a value to the types of encoding/json, so that numbers are comparable.
func decoded(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(raw, &out)
}

// schemas returns the schemas of all versions of a CustomResourceDefinition.
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
