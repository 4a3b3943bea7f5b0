package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/metrics"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/alarm/standby"
	"github.com/bongsu-io/bongsu/internal/controller/alarms"
	"github.com/bongsu-io/bongsu/internal/controller/receivers"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// undecidedAfter is how long an occurrence waits for an object that cannot be read.
const undecidedAfter = 10 * time.Minute

// addAlarms adds the controllers of alarms and receivers, and the pipeline from the event
// source to the receivers.
func (a *App) addAlarms(ctx context.Context, as *assembly) error {
	uid, err := clusterUID(ctx, a.manager.GetAPIReader())
	if err != nil {
		return err
	}
	a.outbox, err = outbox.Open(ctx, as.Options.DataDir, outbox.WithComposer(pipeline.ComposeGroup), outbox.WithMaxBytes(as.Options.OutboxMaxBytes.Value()))
	if err != nil {
		return err
	}
	a.atWork = func() bool { return a.outbox.State().Position > 0 }

	counts := counters.New(a.outbox)
	observer := a.newObserver(as.Config, counts)
	as.bodyFailed, as.clusterName = observer.BodyFailed, clusterName(as.Options, uid)
	known := &knownReceivers{namespaces: newNamespaces(a.manager.GetCache(), a.manager.GetAPIReader())}
	dispatcher := notify.NewDispatcher(a.outbox, observer, realClock, as.Log.WithName("notify"),
		notify.Options{MaxAge: as.Options.DeliveryMaxAge, MayLead: a.lease.mayLead, Orphaned: known.orphaned})
	metrics.RegisterReceivers(as.Metrics, dispatcher.FailingReceivers, dispatcher.SetAsideByAll)
	inForce := pipeline.NewAlarms()
	changes, err := objects.New(as.REST, a.outbox.Streams, realClock, as.Log.WithName("changes"))
	if err != nil {
		return err
	}

	controllers, err := a.addAlarmControllers(ctx, as, counts, inForce, changes, dispatcher)
	if err != nil {
		return err
	}
	if as.events, err = a.newEventSource(as); err != nil {
		return err
	}
	enricher, err := a.newEnricher(ctx, as, changes)
	if err != nil {
		return err
	}
	alarmPipeline := pipeline.New(pipeline.Config{
		ClusterUID: uid,
		Source:     as.events,
		Changes:    changes,
		Outbox:     a.outbox,
		Checkpoint: checkpoint.NewStore(a.manager.GetClient(), as.Options.Namespace).Named(as.clusterName),
		Dispatcher: dispatcher,
		Alarms:     inForce,
		Namespaces: known,
		Enricher:   enricher,
		Reporter:   observer,
		Observe:    as.observe,
		LoadAlarms: func(ctx context.Context) error { known.start(realClock.Now()); return controllers.prime(ctx) },
		MaxAge:     undecidedAfter,
		Receiver:   known.receiver,
		Clock:      realClock,
		Log:        as.Log.WithName("pipeline"),
	})
	if recovery := a.outbox.Recovered(); recovery != nil {
		observer.OutboxReset(ctx, recovery)
	}
	return errors.Join(a.manager.Add(leaderOnly(alarmPipeline.Start)), a.addHeartbeat(as.Config), a.addStandby(as.Config, as.events.Stuck))
}

func (a *App) addHeartbeat(c Config) error {
	if c.Options.HeartbeatInterval == 0 {
		return nil
	}
	h := &heartbeat{
		recorder:  events.NewRecorder(a.manager.GetClient(), realClock, "bongsu"),
		namespace: c.Options.Namespace, every: c.Options.HeartbeatInterval, clock: realClock, log: c.Log.WithName("heartbeat"),
	}
	return a.manager.Add(leaderOnly(h.run))
}

// addStandby lets a leader that cannot commit step down, if another replica could lead.
func (a *App) addStandby(c Config, stuck func() bool) error {
	if !c.Options.LeaderElect {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lease := &standby.Lease{
		Reader: a.manager.GetAPIReader(), Writer: a.manager.GetClient(), Identity: host, Clock: realClock, Log: c.Log.WithName("standby"),
		Key: client.ObjectKey{Namespace: c.Options.Namespace, Name: options.StandbyLeaseName},
	}
	return errors.Join(
		a.manager.Add(leaderOnly(func(ctx context.Context) error { return lease.Lead(ctx, stuck) })),
		a.manager.Add(everyReplica(func(ctx context.Context) error { return lease.Stand(ctx, a.elected, a.outbox.CanCommit) })),
	)
}

func (a *App) newObserver(c Config, counts *counters.Counters) *metrics.Observer {
	eventRecorder := events.NewRecorder(a.manager.GetClient(), realClock, "bongsu")
	return metrics.NewObserver(counts, metrics.New(c.Metrics, a.load(c)), eventRecorder,
		c.Options.Namespace, realClock, c.Log.WithName("alarms"))
}

// load returns the load of the outbox. It is zero unless this replica leads.
func (a *App) load(c Config) metrics.Load {
	return metrics.Load{
		Size: func() outbox.Size {
			if !a.elected() {
				return outbox.Size{}
			}
			return a.outbox.Size()
		},
		UsedBytes: func() float64 {
			used, err := a.outbox.Used(context.Background())
			if err != nil {
				return math.NaN()
			}
			return float64(used)
		},
		LimitBytes: func() float64 { return c.Options.OutboxMaxBytes.AsApproximateFloat64() },
		OldestSeconds: func() float64 {
			since, err := a.outbox.Oldest(context.Background())
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

// clusterName returns the name of the cluster in messages.
func clusterName(o options.Options, clusterUID string) string {
	return cmp.Or(o.ClusterName, enrich.ClusterName(clusterUID))
}

// maxRead limits each response that the enricher reads, in bytes. An object has at most 2 MiB. The
// enricher limits lists of pods further.
const maxRead = 8 << 20

func (a *App) newEnricher(ctx context.Context, as *assembly, named enrich.Resources) (*enrich.Enricher, error) {
	nodes, err := enrich.NewCachedNodes(ctx, a.manager.GetCache())
	if err != nil {
		return nil, err
	}
	limited := rest.CopyConfig(as.REST)
	limited.Wrap(kube.LimitResponses(maxRead))
	live, err := client.New(limited, client.Options{Scheme: a.manager.GetScheme(), Mapper: a.manager.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	return enrich.New(as.clusterName, nodes, live).WithResources(named).WithRoots(live.Scheme(), live.RESTMapper()), nil
}

// clusterUID returns the UID of the namespace kube-system, which identifies the cluster.
func clusterUID(ctx context.Context, reader client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read the cluster's UID: %w", err)
	}
	return string(ns.UID), nil
}

// alarms contains the controllers of alarms and receivers.
type alarmControllers struct {
	alarm, clusterAlarm       *alarms.Reconciler
	receiver, clusterReceiver *receivers.Reconciler
	policies                  *policies.Gate
}

// prime puts all alarms into force before the first Event is handled. ClusterAlarms come
// first.
func (c *alarmControllers) prime(ctx context.Context) error {
	if err := c.policies.Await(ctx); err != nil {
		return err
	}
	if err := c.clusterAlarm.Prime(ctx); err != nil {
		return err
	}
	return c.alarm.Prime(ctx)
}

// watchesSecrets reports whether the operator may watch all Secrets with a feature.
func watchesSecrets(f feature.Feature) bool {
	return f == feature.AlarmSecrets || f == feature.SecretShare || f == feature.Jupyter
}

// addAlarmControllers builds the controllers and adds them to the manager.
func (a *App) addAlarmControllers(ctx context.Context, as *assembly, counts *counters.Counters, inForce *pipeline.Alarms, changes *objects.Source, dispatcher *notify.Dispatcher) (*alarmControllers, error) {
	compiler, err := match.NewCompiler()
	if err != nil {
		return nil, err
	}
	guarded, err := as.Options.Guard()
	if err != nil {
		return nil, err
	}
	if guarded.Nodes, err = receiver.NewNodes(ctx, a.manager.GetCache(), a.manager.GetFieldIndexer()); err != nil {
		return nil, err
	}
	all := &alarmControllers{policies: as.policies}
	watch, watched := kube.NewSecretWatch(all.enqueue), slices.ContainsFunc(as.features, watchesSecrets)
	if watched {
		as.secrets = append(as.secrets, watch)
	}
	cl := a.manager.GetClient()
	sinks := receiver.NewSinks(guarded, as.Out, realClock)
	sinks.Cluster, sinks.HelloName, sinks.BodyFailed = as.clusterName, as.Options.SMTPHelloName, as.bodyFailed
	reporter := func(kind string) *status.Reporter {
		return status.New(cl, a.manager.GetAPIReader(), realClock, counts, kind)
	}
	forAlarms := alarms.Dependencies{Client: cl, Compiler: compiler, Alarms: inForce, Changes: changes, Metrics: as.Metrics, Reporter: reporter, Policies: as.policies, Clock: realClock, Begun: a.atWork}
	forReceivers := receivers.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Secrets: watch, Unwatched: !watched, Dispatcher: dispatcher,
		Reporter: reporter, Policies: as.policies, Sinks: sinks,
	}
	all.alarm, all.clusterAlarm = alarms.NewAlarm(forAlarms), alarms.NewClusterAlarm(forAlarms)
	all.receiver, all.clusterReceiver = receivers.NewAlarmReceiver(forReceivers), receivers.NewClusterAlarmReceiver(forReceivers)
	return all, a.setUp(all, counts)
}

// setUp adds the controllers to the manager, and enqueues objects whose counts changed.
func (a *App) setUp(all *alarmControllers, counts *counters.Counters) error {
	return errors.Join(
		all.alarm.SetUp(a.manager), all.clusterAlarm.SetUp(a.manager),
		all.receiver.SetUp(a.manager), all.clusterReceiver.SetUp(a.manager),
		a.manager.Add(leaderOnly(func(ctx context.Context) error {
			return counts.Flush(ctx, realClock, func(subject string) {
				if key, err := kube.ParseKey(subject); err == nil {
					all.enqueue(key)
				}
			})
		})),
	)
}

// enqueue enqueues an alarm or a receiver.
func (c *alarmControllers) enqueue(key kube.Key) {
	switch name := key.NamespacedName(); key.Kind {
	case alarm.KindAlarm:
		c.alarm.Enqueue(name)
	case alarm.KindClusterAlarm:
		c.clusterAlarm.Enqueue(name)
	case v1alpha1.KindAlarmReceiver:
		c.receiver.Enqueue(name)
	case v1alpha1.KindClusterAlarmReceiver:
		c.clusterReceiver.Enqueue(name)
	}
}
