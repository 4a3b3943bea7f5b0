// Package operator builds the operator from its parts: New builds it, Start runs it until
// its context ends. No other package decides which parts run.
package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// Terms of leadership: another replica takes over within 15 s of a crash. It looks
// at the lease after retryPeriod, or up to 2.2 times that, for client-go adds
// jitter: once until it has seen the last renewal, and once more after
// leaseDuration has passed since then.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = 1 * time.Second
	// gracePeriod is how long the parts may take to stop: requests in flight are
	// finished and marked.
	gracePeriod = 8 * time.Second
)

// App is the operator.
type App struct {
	manager ctrl.Manager
	// ledger is nil where there are no alarms to keep one for.
	ledger *outbox.Store
	// atWork tells whether the operator has begun with what it was chosen for.
	atWork func() bool
}

// Config is what an App needs besides its options.
type Config struct {
	// REST says which cluster, and as whom.
	REST *rest.Config
	// Options must have been validated.
	Options options.Options
	// Out is where log receivers write.
	Out io.Writer
	Log logr.Logger
	// Metrics is where metrics are registered. Default: the registry that the
	// metrics endpoint serves, which has room for one App.
	Metrics prometheus.Registerer
	// DialPod is how pods are reached. Default: the network's way; simulated pods have
	// none.
	DialPod func(ctx context.Context, network, address string) (net.Conn, error)
}

// New builds the operator. With alarms, it opens the ledger, which no other process
// may have open, and asks the API server for the cluster's UID.
func New(ctx context.Context, c Config) (*App, error) {
	if c.Metrics == nil {
		c.Metrics = metrics.Registry
	}
	mgr, err := newManager(c)
	if err != nil {
		return nil, err
	}
	app := &App{manager: mgr}
	app.atWork = app.elected
	if err := app.addParts(ctx, c); err != nil {
		return nil, errors.Join(err, app.closeLedger())
	}
	return app, nil
}

// Start runs the operator until ctx ends, or until it lost its leadership, which
// is an error.
func (a *App) Start(ctx context.Context) error {
	return errors.Join(a.manager.Start(ctx), a.closeLedger())
}

func (a *App) closeLedger() error {
	if a.ledger == nil {
		return nil
	}
	return a.ledger.Close()
}

// AtWork returns when the operator leads and knows, if it reads Events, from where on:
// none that is created from then on escapes it. It waits as long as ctx lasts.
func (a *App) AtWork(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return a.atWork(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the operator: %w", err)
	}
	return nil
}

// elected tells whether this replica leads.
func (a *App) elected() bool {
	select {
	case <-a.manager.Elected():
		return true
	default:
		return false
	}
}

func newManager(c Config) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(c.REST, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        c.Log,
		Cache:                         cacheOptions(),
		Client:                        clientOptions(),
		LeaderElection:                c.Options.LeaderElect,
		LeaderElectionID:              options.LeaseName,
		LeaderElectionNamespace:       c.Options.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when Start returns
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(gracePeriod),
		// A process may hold several Apps, with a controller of each name in each.
		Controller:             config.Controller{SkipNameValidation: new(true)},
		Metrics:                metricsserver.Options{BindAddress: c.Options.MetricsAddress},
		HealthProbeBindAddress: c.Options.HealthAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	return mgr, mgr.AddHealthzCheck("ping", healthz.Ping)
}

// cacheOptions keep what is not ours small.
func cacheOptions() cache.Options {
	made := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{workload.LabelManagedBy: workload.ManagedBy})}
	pods := made
	made.Transform, pods.Transform = kube.TrimApplied, kube.TrimPod
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                  {Transform: enrich.TrimNode},
			&corev1.Pod{}:                   pods,
			&corev1.Service{}:               made,
			&corev1.PersistentVolumeClaim{}: made,
			&appsv1.StatefulSet{}:           made,
			&appsv1.Deployment{}:            made,
			&appsv1.ReplicaSet{}:            made,
			&batchv1.Job{}:                  made,
			&networkingv1.Ingress{}:         made,
		},
	}
}

// clientOptions send reads of what must never be cached to the API server.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{
		DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{}},
	}}
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// realClock is the time that the operator runs by.
var realClock = clock.RealClock{}
