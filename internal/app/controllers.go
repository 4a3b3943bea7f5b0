package app

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	engine "github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/appservice"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter"
	"github.com/bongsu-io/bongsu/internal/controller/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
	logsink "github.com/bongsu-io/bongsu/internal/notify/log"
	"github.com/bongsu-io/bongsu/internal/pipeline"
	"github.com/bongsu-io/bongsu/internal/report"
	"github.com/bongsu-io/bongsu/internal/tally"
	"github.com/bongsu-io/bongsu/internal/version"
)

// controllers are all controllers of the operator.
type controllers struct {
	alarm, clusterAlarm       *alarm.Reconciler
	receiver, clusterReceiver *receiver.Reconciler
	jupyter                   *jupyter.Reconciler
	appService                *appservice.Reconciler
}

// prime brings all alarms into force before the first Event is consumed.
func (c *controllers) prime(ctx context.Context) error {
	if err := c.alarm.Prime(ctx); err != nil {
		return err
	}
	return c.clusterAlarm.Prime(ctx)
}

// hear is told of all Events: some tell why what somebody asked for does not run.
func (c *controllers) hear(ctx context.Context, occurrences []engine.Occurrence) {
	c.jupyter.Hear(ctx, occurrences)
	c.appService.Hear(ctx, occurrences)
}

// addControllers makes each controller and hands it to the manager.
func (a *App) addControllers(c Config, counts *tally.Tally, alarms *pipeline.Alarms, dispatcher *notify.Dispatcher) (*controllers, error) {
	compiler, err := engine.NewCompiler()
	if err != nil {
		return nil, err
	}
	sinks, err := newSinks(c)
	if err != nil {
		return nil, err
	}
	secrets := newFanOut(v1alpha1.KindAlarmReceiver, v1alpha1.KindClusterAlarmReceiver)
	watch := kube.NewSecretWatch(secrets.all)
	cl := a.manager.GetClient()
	shares := secretshare.New(secretshare.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Clock: realClock, Metrics: c.Metrics,
	})
	notebooks := jupyter.New(jupyter.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Clock: realClock, Image: c.Options.JupyterImage, DialPod: c.DialPod,
	})
	apps, err := appservice.New(appservice.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Clock: realClock, Metrics: c.Metrics,
		REST: c.REST, Image: c.Options.AppServiceImage, DialPod: c.DialPod,
	})
	if err != nil {
		return nil, err
	}
	stream, err := a.newSecretStream(c, watch, shares.Secrets(), notebooks.Secrets())
	if err != nil {
		return nil, err
	}
	reporter := func(kind string) *report.Reporter { return report.New(cl, realClock, counts, kind) }
	forAlarms := alarm.Dependencies{Client: cl, Compiler: compiler, Alarms: alarms, Reporter: reporter}
	forReceivers := receiver.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Secrets: watch, Dispatcher: dispatcher,
		Reporter: reporter, Sinks: sinks,
	}
	all := &controllers{
		alarm: alarm.NewAlarm(forAlarms), clusterAlarm: alarm.NewClusterAlarm(forAlarms),
		receiver: receiver.NewAlarmReceiver(forReceivers), clusterReceiver: receiver.NewClusterAlarmReceiver(forReceivers),
		jupyter: notebooks, appService: apps,
	}
	err = errors.Join(
		a.manager.Add(leaderOnly(stream.Start)),
		a.manager.Add(leaderOnly(func(ctx context.Context) error { return secretshare.EnsureDefault(ctx, cl, c.Options.Namespace) })),
		shares.SetUp(a.manager),
		notebooks.SetUp(a.manager),
		apps.SetUp(a.manager),
	)
	if err != nil {
		return nil, err
	}
	return all, a.setUp(all, counts, secrets)
}

// setUp registers the controllers and what tells them that counts changed.
func (a *App) setUp(all *controllers, counts *tally.Tally, secrets fanOut) error {
	changed := newFanOut(engine.KindAlarm, engine.KindClusterAlarm, v1alpha1.KindAlarmReceiver, v1alpha1.KindClusterAlarmReceiver)
	for _, add := range []func() error{
		func() error { return all.alarm.SetUp(a.manager, changed[engine.KindAlarm]) },
		func() error { return all.clusterAlarm.SetUp(a.manager, changed[engine.KindClusterAlarm]) },
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

func newSinks(c Config) (receiver.Sinks, error) {
	allowed, err := c.Options.AllowedPrefixes()
	if err != nil {
		return receiver.Sinks{}, err
	}
	guard := dialguard.New(allowed...)
	agent := "bongsu/" + version.String()
	return receiver.Sinks{
		Guard:   guard,
		Guarded: httppost.New(httppost.Config{UserAgent: agent, Guard: guard}),
		Open:    httppost.New(httppost.Config{UserAgent: agent}),
		Log:     logsink.New(c.Out),
		Clock:   realClock,
	}, nil
}

// fanOut tells the controllers of some kinds that an object changed.
type fanOut map[string]chan event.GenericEvent

func newFanOut(kinds ...string) fanOut {
	f := fanOut{}
	for _, kind := range kinds {
		f[kind] = make(chan event.GenericEvent, 1024)
	}
	return f
}

// one tells the controller of the kind that the key names.
func (f fanOut) one(ctx context.Context, subject string) {
	key, err := kube.ParseKey(subject)
	if err != nil {
		return // no subject of ours
	}
	if channel, ok := f[key.Kind]; ok {
		tell(ctx, channel, key.NamespacedName())
	}
}

// all tells every controller.
func (f fanOut) all(ctx context.Context, name types.NamespacedName) {
	for _, channel := range f {
		tell(ctx, channel, name)
	}
}

// tell waits for a busy controller, but not for one that has ended.
func tell(ctx context.Context, channel chan<- event.GenericEvent, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case channel <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
