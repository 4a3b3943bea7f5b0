package operator

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bongsu-io/bongsu/internal/operator/endpoint"
	"github.com/bongsu-io/bongsu/internal/operator/metricsauth"
)

const (
	// noAddress switches an endpoint off.
	noAddress = "0"
	// maxScrapes is the number of scrapes at a time. Others get the status 503.
	maxScrapes = 4
)

// addEndpoints adds the servers of health and metrics.
func (a *App) addEndpoints(ctx context.Context, c Config) error {
	if c.Options.HealthAddress != noAddress {
		if err := a.addEndpoint(ctx, "health", c.Options.HealthAddress, false, a.healthHandler()); err != nil {
			return err
		}
	}
	if c.Options.MetricsAddress == noAddress {
		return nil
	}
	handler, err := a.metricsHandler(c)
	if err != nil {
		return err
	}
	// Requests for metrics contain tokens.
	return a.addEndpoint(ctx, "metrics", c.Options.MetricsAddress, c.Options.MetricsSecure, handler)
}

func (a *App) addEndpoint(ctx context.Context, name, address string, secure bool, handler http.Handler) error {
	server, err := endpoint.New(ctx, name, address, secure, handler)
	if err != nil {
		return err
	}
	return a.manager.Add(server)
}

// healthHandler serves /healthz and /readyz, and each check of /readyz below it.
func (a *App) healthHandler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": a.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return mux
}

// metricsHandler serves /metrics, by default to users who can get this path.
func (a *App) metricsHandler(c Config) (http.Handler, error) {
	handler := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	if c.Options.MetricsSecure {
		authentication, err := authenticationv1client.NewForConfigAndClient(c.REST, a.manager.GetHTTPClient())
		if err != nil {
			return nil, err
		}
		authorization, err := authorizationv1client.NewForConfigAndClient(c.REST, a.manager.GetHTTPClient())
		if err != nil {
			return nil, err
		}
		filter := metricsauth.New(authentication.TokenReviews(), authorization.SubjectAccessReviews(), realClock)
		handler = filter.Wrap(c.Log.WithName("metrics"), handler)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	return mux, nil
}
