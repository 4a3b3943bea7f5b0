package operator

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/metrics"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// addAlarms adds the controllers and the pipeline that serves them, from the feed to
// the receivers.
func (a *App) addAlarms(ctx context.Context, as *assembly) error {
	uid, err := clusterUID(ctx, a.manager.GetAPIReader())
	if err != nil {
		return err
	}
	if a.ledger, err = outbox.Open(ctx, as.Options.DataDir); err != nil {
		return err
	}
	a.atWork = func() bool { return a.ledger.State().Position > 0 }

	counts := counters.New()
	accountant := a.newAccountant(as.Config, counts)
	known := namespaces{a.manager.GetCache()}
	dispatcher := notify.NewDispatcher(a.ledger, accountant, realClock, as.Log.WithName("notify"),
		notify.Options{MaxAge: as.Options.DeliveryMaxAge, Orphaned: known.orphaned})
	inForce := pipeline.NewAlarms()

	controllers, err := a.addAlarmControllers(as, counts, inForce, dispatcher)
	if err != nil {
		return err
	}
	if as.feed, err = a.newFeed(as); err != nil {
		return err
	}
	line := pipeline.New(pipeline.Config{
		ClusterUID: uid,
		Source:     as.feed,
		Outbox:     a.ledger,
		Checkpoint: checkpoint.NewStore(a.manager.GetClient(), as.Options.Namespace),
		Dispatcher: dispatcher,
		Alarms:     inForce,
		Namespaces: known,
		Enricher:   a.newEnricher(as.Config, uid),
		Reporter:   accountant,
		Observe:    as.hear,
		LoadAlarms: controllers.prime,
		Clock:      realClock,
		Log:        as.Log.WithName("pipeline"),
	})
	if recovery := a.ledger.Recovered(); recovery != nil {
		accountant.OutboxReset(ctx, recovery)
	}
	return a.manager.Add(leaderOnly(line.Start))
}

func (a *App) newAccountant(c Config, counts *counters.Counters) *metrics.Recorder {
	recorder := events.NewRecorder(a.manager.GetClient(), realClock, "bongsu")
	return metrics.NewRecorder(counts, metrics.New(c.Metrics, a.load()), recorder,
		c.Options.Namespace, realClock, c.Log.WithName("alarms"))
}

// load tells of the ledger as long as this replica leads.
func (a *App) load() metrics.Load {
	return metrics.Load{
		Size: func() outbox.Size {
			if !a.elected() {
				return outbox.Size{}
			}
			return a.ledger.Size()
		},
		OldestSeconds: func() float64 {
			since, err := a.ledger.Oldest(context.Background())
			switch {
			case err != nil:
				return math.NaN()
			case since.IsZero() || !a.elected():
				return 0
			default:
				return max(realClock.Since(since).Seconds(), 0)
			}
		},
	}
}

func (a *App) newEnricher(c Config, clusterUID string) *enrich.Enricher {
	name := c.Options.ClusterName
	if name == "" {
		name = enrich.ClusterName(clusterUID)
	}
	return enrich.New(name, a.manager.GetCache(), a.manager.GetAPIReader())
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
