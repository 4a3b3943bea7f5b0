package operator

import (
	"context"
	"errors"

	"github.com/bongsu-io/bongsu/internal/controller/appservice"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// controllers are all controllers of the operator, by what they are chosen by.
var controllers = []part{
	{feature.Alarm, (*App).addAlarms},
	{feature.SecretShare, (*App).addShares},
	{feature.Jupyter, (*App).addNotebooks},
	{feature.AppService, (*App).addApps},
}

func (a *App) addShares(_ context.Context, as *assembly) error {
	cl := a.manager.GetClient()
	shares := secretshare.New(secretshare.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Clock: realClock, Metrics: as.Metrics,
	})
	as.secrets = append(as.secrets, shares.Secrets())
	return errors.Join(
		a.manager.Add(leaderOnly(func(ctx context.Context) error { return secretshare.EnsureDefault(ctx, cl, as.Options.Namespace) })),
		shares.SetUp(a.manager),
	)
}

func (a *App) addNotebooks(_ context.Context, as *assembly) error {
	notebooks := jupyter.New(jupyter.Dependencies{
		Client: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Clock: realClock,
		Image: as.Options.JupyterImage, DialPod: as.DialPod,
	})
	as.secrets = append(as.secrets, notebooks.Secrets())
	as.hearers = append(as.hearers, notebooks.Observe)
	return notebooks.SetUp(a.manager)
}

func (a *App) addApps(_ context.Context, as *assembly) error {
	apps, err := appservice.New(appservice.Dependencies{
		Client: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Clock: realClock, Metrics: as.Metrics,
		REST: as.REST, Image: as.Options.AppServiceImage, DialPod: as.DialPod,
	})
	if err != nil {
		return err
	}
	as.hearers = append(as.hearers, apps.Observe)
	return apps.SetUp(a.manager)
}
