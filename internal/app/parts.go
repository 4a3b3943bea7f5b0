package app

import (
	"context"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/accounting"
	"github.com/bongsu-io/bongsu/internal/enrich"
	"github.com/bongsu-io/bongsu/internal/eventfeed"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/mirror"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/pipeline"
	"github.com/bongsu-io/bongsu/internal/tally"
)

var schemes = []func(*runtime.Scheme) error{
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme,
}

// addParts makes everything that runs and hands it to the manager.
func (a *App) addParts(ctx context.Context, c Config) error {
	uid, err := clusterUID(ctx, a.manager.GetAPIReader())
	if err != nil {
		return err
	}
	if err := a.addRights(c); err != nil {
		return err
	}
	counts := tally.New()
	accountant := a.newAccountant(c, counts)
	known := namespaces{a.manager.GetCache()}
	dispatcher := notify.NewDispatcher(a.ledger, accountant, realClock, c.Log.WithName("notify"),
		notify.Options{MaxAge: c.Options.DeliveryMaxAge, Orphaned: known.orphaned})
	alarms := pipeline.NewAlarms()

	controllers, err := a.addControllers(c, counts, alarms, dispatcher)
	if err != nil {
		return err
	}
	feed, err := eventfeed.New(c.REST, realClock, c.Log.WithName("feed"))
	if err != nil {
		return err
	}
	if err := c.Metrics.Register(feed); err != nil {
		return err
	}
	if err := a.manager.AddReadyzCheck("events", a.ready(feed)); err != nil {
		return err
	}
	line := pipeline.New(pipeline.Config{
		ClusterUID: uid,
		Feed:       feed,
		Ledger:     a.ledger,
		Mirror:     mirror.NewStore(a.manager.GetClient(), c.Options.Namespace),
		Dispatcher: dispatcher,
		Alarms:     alarms,
		Namespaces: known,
		Enricher:   a.newEnricher(c, uid),
		Reporter:   accountant,
		Hear:       controllers.hear,
		Prime:      controllers.prime,
		Clock:      realClock,
		Log:        c.Log.WithName("pipeline"),
	})
	if recovery := a.ledger.Recovered(); recovery != nil {
		accountant.LedgerReset(ctx, recovery)
	}
	return a.manager.Add(leaderOnly(line.Start))
}

func (a *App) newAccountant(c Config, counts *tally.Tally) *accounting.Accountant {
	pending := func() float64 {
		var n int64
		for _, backlog := range a.ledger.Snapshot().Backlogs {
			n += backlog.Entries
		}
		return float64(n)
	}
	recorder := kube.NewRecorder(a.manager.GetClient(), realClock, "bongsu")
	return accounting.New(counts, accounting.NewMetrics(c.Metrics, pending), recorder,
		c.Options.Namespace, realClock, c.Log.WithName("alarms"))
}

func (a *App) newEnricher(c Config, clusterUID string) *enrich.Enricher {
	name := c.Options.ClusterName
	if name == "" {
		name = "cluster-" + clusterUID[:min(8, len(clusterUID))]
	}
	return enrich.New(name, a.manager.GetCache(), a.manager.GetAPIReader())
}

func (a *App) newSecretStream(c Config, listeners ...kube.SecretListener) (*kube.SecretStream, error) {
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.REST), a.manager.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return kube.NewSecretStream(metadataClient, listeners...), nil
}

// clusterUID is the UID of the namespace kube-system, which lives as long as the
// cluster.
func clusterUID(ctx context.Context, reader client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read the cluster's UID: %w", err)
	}
	return string(ns.UID), nil
}

// ready says whether Events are read and committed. A replica that waits to lead
// is ready to do so.
func (a *App) ready(feed *eventfeed.Feed) healthz.Checker {
	return func(*http.Request) error {
		select {
		case <-a.manager.Elected():
			return feed.Healthy()
		default:
			return nil
		}
	}
}

// leaderOnly makes a Runnable that waits for leadership of a function.
type leaderOnly func(context.Context) error

var _ manager.LeaderElectionRunnable = leaderOnly(nil)

// Start implements manager.Runnable.
func (f leaderOnly) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f leaderOnly) NeedLeaderElection() bool { return true }
