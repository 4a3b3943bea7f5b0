// Package operator builds the operator from its parts: New builds it, Start runs it until
// its context ends. No other package decides which parts run.
package operator

import (
	"cmp"
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
	policyv1 "k8s.io/api/policy/v1"
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

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/controller/alarms"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// Leader election. Another replica takes over within 15 s of a crash. client-go adds jitter:
// a replica reads the lease every 1 to 2.2 retryPeriods. It reads the last renewal one such
// interval late at most, and the end of leaseDuration another one.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = 1 * time.Second
	// gracePeriod is the time to finish requests in flight.
	gracePeriod = 8 * time.Second
)

// App is the operator.
type App struct {
	manager ctrl.Manager
	// lease is nil without leader election.
	lease *lease
	// outbox is nil if the feature Alarm was not chosen.
	outbox *outbox.Store
	// atWork reports whether the operator leads and its event source has a position.
	atWork func() bool
	// ready are the checks of /readyz, by name.
	ready map[string]healthz.Checker
}

// Config contains the options and dependencies of an App.
type Config struct {
	// REST contains the address of the API server and the credentials.
	REST *rest.Config
	// Options must have been validated.
	Options options.Options
	// Out receives the messages of log receivers.
	Out io.Writer
	Log logr.Logger
	// Metrics registers the metrics. Default: the registry of the metrics endpoint, which
	// can contain those of one App.
	Metrics prometheus.Registerer
	// LeaseDuration and RenewDeadline change those of the leader's lease. Tests set them,
	// because a leader in a busy process may renew its lease late.
	LeaseDuration, RenewDeadline time.Duration
	// DialPod connects to the TCP address of a pod on a node. The default refuses simulated nodes.
	DialPod func(ctx context.Context, node, address string) (net.Conn, error)
}

// New builds the operator. With the feature Alarm, it opens the outbox, which no other
// process may have open, and reads the cluster's UID from the API server.
func New(ctx context.Context, c Config) (*App, error) {
	if c.Metrics == nil {
		c.Metrics = metrics.Registry
	}
	starting, started := context.WithTimeout(ctx, repeatFor)
	defer started()
	c.REST = withLimits(c.REST)
	c.REST.Wrap(kube.RepeatReads(starting, realClock))
	app, ofLease := &App{ready: map[string]healthz.Checker{}}, c.REST
	if c.Options.LeaderElect {
		app.lease = &lease{clock: realClock, lasts: cmp.Or(c.LeaseDuration, leaseDuration)}
		ofLease, c.REST = app.lease.config(c.REST), app.lease.fenced(c.REST)
	}
	var err error
	if app.manager, err = newManager(c, ofLease); err != nil {
		return nil, err
	}
	app.atWork = app.elected
	if err := app.addParts(ctx, c); err != nil {
		return nil, errors.Join(err, app.closeOutbox())
	}
	if err := app.addEndpoints(ctx, c); err != nil {
		return nil, errors.Join(err, app.closeOutbox())
	}
	return app, nil
}

const (
	// maxPause is how long a request waits at most because an answer asks for it.
	maxPause = time.Minute
	// maxWait is how long a request waits for an answer. The API server ends it after a minute.
	maxWait = 90 * time.Second
	// repeatFor is how long New repeats reads that fail. If the operator ended instead, the kubelet
	// could wait for five minutes before it starts again.
	repeatFor = 2 * time.Minute
)

// withLimits returns a copy of a configuration with these limits, in which [kube.WithResponseLimit] has
// an effect.
func withLimits(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(kube.LimitWait(maxWait))
	c.Wrap(kube.LimitRetryAfter(maxPause))
	c.Wrap(kube.LimitResponses(kube.NoLimit))
	return c
}

// Start runs the operator until ctx ends. It returns an error if the operator loses its
// leadership.
func (a *App) Start(ctx context.Context) error {
	return errors.Join(a.manager.Start(ctx), a.closeOutbox())
}

func (a *App) closeOutbox() error {
	if a.outbox == nil {
		return nil
	}
	return a.outbox.Close()
}

// AtWork waits until the operator leads and its event source has a position. The operator
// misses no Event that is created later. AtWork returns an error if ctx ends first.
func (a *App) AtWork(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return a.atWork(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the operator: %w", err)
	}
	return nil
}

// elected reports whether this replica leads.
func (a *App) elected() bool {
	select {
	case <-a.manager.Elected():
		return true
	default:
		return false
	}
}

func newManager(c Config, ofLease *rest.Config) (ctrl.Manager, error) {
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
		LeaderElectionConfig:          ofLease,
		LeaderElectionID:              options.LeaseName,
		LeaderElectionNamespace:       c.Options.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when Start returns
		LeaseDuration:                 new(cmp.Or(c.LeaseDuration, leaseDuration)),
		RenewDeadline:                 new(cmp.Or(c.RenewDeadline, renewDeadline)),
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(gracePeriod),
		// Tests run several Apps in one process, with the same names of controllers.
		Controller: config.Controller{SkipNameValidation: new(true)},
		// Its own servers let clients use more memory than the container has: see addEndpoints.
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	return mgr, nil
}

// cacheOptions caches only pods and children that the operator created, and drops large
// fields.
func cacheOptions() cache.Options {
	made := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{workload.LabelManagedBy: workload.ManagedBy})}
	pods := made
	made.Transform, pods.Transform = kube.TrimApplied, kube.TrimPod
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Alarm{}:               {Transform: alarms.TrimManagedFields},
			&v1alpha1.ClusterAlarm{}:        {Transform: alarms.TrimManagedFields},
			&corev1.Node{}:                  {Transform: enrich.TrimNode},
			&corev1.Pod{}:                   pods,
			&corev1.Service{}:               made,
			&corev1.PersistentVolumeClaim{}: made,
			&appsv1.StatefulSet{}:           made,
			&appsv1.Deployment{}:            made,
			&appsv1.ReplicaSet{}:            made,
			&batchv1.Job{}:                  made,
			&networkingv1.Ingress{}:         made,
			&policyv1.PodDisruptionBudget{}: made,
		},
	}
}

// clientOptions disables the cache for Secrets, ConfigMaps and Events.
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

// realClock is the clock of all parts.
var realClock = clock.RealClock{}
