package operator

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	internalalarm "github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/metrics"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	alarmreceiver "github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// addAlarms adds the controllers of alarms and receivers, and the pipeline from the event
// source to the receivers.
func (a *App) addAlarms(ctx context.Context, as *assembly) error {
	uid, err := clusterUID(ctx, a.manager.GetAPIReader())
	if err != nil {
		return err
	}
	if a.outbox, err = outbox.Open(ctx, as.Options.DataDir); err != nil {
		return err
	}
	a.atWork = func() bool { return a.outbox.State().Position > 0 }

	counts := counters.New()
	recorder := a.newRecorder(as.Config, counts)
	known := namespaces{a.manager.GetCache()}
	dispatcher := notify.NewDispatcher(a.outbox, recorder, realClock, as.Log.WithName("notify"),
		notify.Options{MaxAge: as.Options.DeliveryMaxAge, Orphaned: known.orphaned})
	inForce := pipeline.NewAlarms()

	controllers, err := a.addAlarmControllers(as, counts, inForce, dispatcher)
	if err != nil {
		return err
	}
	if as.events, err = a.newEventSource(as); err != nil {
		return err
	}
	alarmPipeline := pipeline.New(pipeline.Config{
		ClusterUID: uid,
		Source:     as.events,
		Outbox:     a.outbox,
		Checkpoint: checkpoint.NewStore(a.manager.GetClient(), as.Options.Namespace),
		Dispatcher: dispatcher,
		Alarms:     inForce,
		Namespaces: known,
		Enricher:   a.newEnricher(as.Config, uid),
		Reporter:   recorder,
		Observe:    as.observe,
		LoadAlarms: controllers.prime,
		Clock:      realClock,
		Log:        as.Log.WithName("pipeline"),
	})
	if recovery := a.outbox.Recovered(); recovery != nil {
		recorder.OutboxReset(ctx, recovery)
	}
	return a.manager.Add(leaderOnly(alarmPipeline.Start))
}

func (a *App) newRecorder(c Config, counts *counters.Counters) *metrics.Recorder {
	eventRecorder := events.NewRecorder(a.manager.GetClient(), realClock, "bongsu")
	return metrics.NewRecorder(counts, metrics.New(c.Metrics, a.load()), eventRecorder,
		c.Options.Namespace, realClock, c.Log.WithName("alarms"))
}

// load returns the load of the outbox. It is zero unless this replica leads.
func (a *App) load() metrics.Load {
	return metrics.Load{
		Size: func() outbox.Size {
			if !a.elected() {
				return outbox.Size{}
			}
			return a.outbox.Size()
		},
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

func (a *App) newEnricher(c Config, clusterUID string) *enrich.Enricher {
	name := c.Options.ClusterName
	if name == "" {
		name = enrich.ClusterName(clusterUID)
	}
	return enrich.New(name, a.manager.GetCache(), a.manager.GetAPIReader())
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
type alarms struct {
	alarm, clusterAlarm       *alarm.Reconciler
	receiver, clusterReceiver *receiver.Reconciler
}

// prime puts all alarms into force before the first Event is handled.
func (c *alarms) prime(ctx context.Context) error {
	if err := c.alarm.Prime(ctx); err != nil {
		return err
	}
	return c.clusterAlarm.Prime(ctx)
}

// addAlarmControllers builds the controllers and adds them to the manager.
func (a *App) addAlarmControllers(as *assembly, counts *counters.Counters, inForce *pipeline.Alarms, dispatcher *notify.Dispatcher) (*alarms, error) {
	compiler, err := match.NewCompiler()
	if err != nil {
		return nil, err
	}
	allowed, err := as.Options.AllowedPrefixes()
	if err != nil {
		return nil, err
	}
	secrets := newFanOut(v1alpha1.KindAlarmReceiver, v1alpha1.KindClusterAlarmReceiver)
	watch := kube.NewSecretWatch(secrets.all)
	as.secrets = append(as.secrets, watch)
	cl := a.manager.GetClient()
	recorder := func(kind string) *status.Recorder { return status.New(cl, realClock, counts, kind) }
	forAlarms := alarm.Dependencies{Client: cl, Compiler: compiler, Alarms: inForce, Recorder: recorder}
	forReceivers := receiver.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Secrets: watch, Dispatcher: dispatcher,
		Recorder: recorder, Sinks: alarmreceiver.NewSinks(allowed, as.Out, realClock),
	}
	all := &alarms{
		alarm: alarm.NewAlarm(forAlarms), clusterAlarm: alarm.NewClusterAlarm(forAlarms),
		receiver: receiver.NewAlarmReceiver(forReceivers), clusterReceiver: receiver.NewClusterAlarmReceiver(forReceivers),
	}
	return all, a.setUp(all, counts, secrets)
}

// setUp adds the controllers to the manager, and enqueues objects whose counts changed.
func (a *App) setUp(all *alarms, counts *counters.Counters, secrets fanOut) error {
	changed := newFanOut(internalalarm.KindAlarm, internalalarm.KindClusterAlarm, v1alpha1.KindAlarmReceiver, v1alpha1.KindClusterAlarmReceiver)
	for _, add := range []func() error{
		func() error { return all.alarm.SetUp(a.manager, changed[internalalarm.KindAlarm]) },
		func() error { return all.clusterAlarm.SetUp(a.manager, changed[internalalarm.KindClusterAlarm]) },
		func() error {
			return all.receiver.SetUp(a.manager, changed[v1alpha1.KindAlarmReceiver], secrets[v1alpha1.KindAlarmReceiver])
		},
		func() error {
			return all.clusterReceiver.SetUp(a.manager, changed[v1alpha1.KindClusterAlarmReceiver], secrets[v1alpha1.KindClusterAlarmReceiver])
		},
		func() error {
			return a.manager.Add(leaderOnly(func(ctx context.Context) error { return counts.Flush(ctx, realClock, changed.one) }))
		},
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// namespaces reads namespaces from the cache of their metadata.
type namespaces struct{ cache client.Reader }

// Labels implements match.Namespaces.
func (n namespaces) Labels(name string) (map[string]string, bool) {
	ns, err := n.get(name)
	if err != nil {
		return nil, false
	}
	return ns.Labels, true
}

// orphaned reports whether the namespace of a receiver does not exist any more.
func (n namespaces) orphaned(receiver string) bool {
	key, err := kube.ParseKey(receiver)
	if err != nil || key.Namespace == "" {
		return false
	}
	_, err = n.get(key.Namespace)
	return apierrors.IsNotFound(err)
}

func (n namespaces) get(name string) (*metav1.PartialObjectMetadata, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	// The cache is in memory, so the read needs no deadline.
	return ns, n.cache.Get(context.Background(), client.ObjectKey{Name: name}, ns, client.UnsafeDisableDeepCopy)
}

// fanOut notifies the controllers of some kinds of changed objects. The key is the kind.
type fanOut map[string]chan event.GenericEvent

func newFanOut(kinds ...string) fanOut {
	f := fanOut{}
	for _, kind := range kinds {
		f[kind] = make(chan event.GenericEvent, 1024)
	}
	return f
}

// one notifies the controller of the kind in the key.
func (f fanOut) one(ctx context.Context, subject string) {
	key, err := kube.ParseKey(subject)
	if err != nil {
		return // not the key of an alarm or receiver
	}
	if channel, ok := f[key.Kind]; ok {
		send(ctx, channel, key.NamespacedName())
	}
}

// all notifies every controller.
func (f fanOut) all(ctx context.Context, name types.NamespacedName) {
	for _, channel := range f {
		send(ctx, channel, name)
	}
}

// send waits while a controller is busy, but not after the end of ctx.
func send(ctx context.Context, channel chan<- event.GenericEvent, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case channel <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
