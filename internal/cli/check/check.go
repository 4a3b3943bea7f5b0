// Package check is `bongsu check`: it asks a cluster, as whoever calls it, for what
// package fitness judges. It changes nothing, and reads no Secret.
package check

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// Checker asks one cluster.
type Checker struct {
	client        client.Client
	discovery     discovery.DiscoveryInterface
	authorization authorizationv1client.AuthorizationV1Interface
	clock         clock.PassiveClock
	namespace     string
	// ahead is how far the API server's clock is ahead of ours.
	ahead time.Duration
}

// New returns a Checker of an installation in a namespace.
func New(cfg *rest.Config, clk clock.PassiveClock, namespace string) (*Checker, error) {
	c := &Checker{clock: clk, namespace: namespace}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next, c} })
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

// Run asks all that there is to ask. An error is that the cluster does not answer.
func (c *Checker) Run(ctx context.Context) ([]preflight.Finding, error) {
	server, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	objects, err := config.Objects(feature.All())
	if err != nil {
		return nil, err
	}
	there := c.installed(ctx, objects)
	findings := []preflight.Finding{
		preflight.Server(server.GitVersion),
		c.apis(),
		preflight.Skew(c.ahead),
		c.caller(ctx, objects, there),
		preflight.Installed(there, c.namespace),
	}
	if there {
		findings = append(findings, c.installation(ctx, objects)...)
	}
	return findings, nil
}

func (c *Checker) installation(ctx context.Context, objects []*unstructured.Unstructured) []preflight.Finding {
	workload, known := c.workload(ctx)
	return slices.Concat([]preflight.Finding{
		c.podSecurity(ctx),
		c.compare(ctx, "kinds", objects, kindCRD),
		c.compare(ctx, "admission policies", objects, kindPolicy, kindBinding),
		c.operatorRights(ctx, workload),
		judge("workload", known, func() preflight.Finding { return preflight.Running(workload.facts()) }),
		c.leader(ctx),
	}, c.receivers(ctx))
}

// judge is the judgement of what is known, or that it is not.
func judge(check string, err error, of func() preflight.Finding) preflight.Finding {
	if err != nil {
		return preflight.Unknown(check, err)
	}
	return of()
}

// dated notes the API server's time in each of its answers.
type dated struct {
	next    http.RoundTripper
	checker *Checker
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		// The header has whole seconds.
		d.checker.ahead = date.Sub(d.checker.clock.Now().Truncate(time.Second))
	}
	return response, nil
}

// now is the API server's time.
func (c *Checker) now() time.Time { return c.clock.Now().Add(c.ahead) }
