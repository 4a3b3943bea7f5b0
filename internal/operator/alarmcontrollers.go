package operator

import (
	"context"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	internalalarm "github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	alarmreceiver "github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// alarms are the controllers of alarms and their receivers.
type alarms struct {
	alarm, clusterAlarm       *alarm.Reconciler
	receiver, clusterReceiver *receiver.Reconciler
}

// prime brings all alarms into force before the first Event is consumed.
func (c *alarms) prime(ctx context.Context) error {
	if err := c.alarm.Prime(ctx); err != nil {
		return err
	}
	return c.clusterAlarm.Prime(ctx)
}

// addAlarmControllers makes the controllers and hands them to the manager.
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

// setUp registers the controllers and what tells them that counts changed.
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
