package operator

import (
	"context"
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// newFeed makes the stream of all Events, with its metrics and its part in readiness.
func (a *App) newFeed(as *assembly) (*source.Source, error) {
	feed, err := source.New(as.REST, realClock, as.Log.WithName("feed"))
	if err != nil {
		return nil, err
	}
	return feed, errors.Join(as.Metrics.Register(feed), a.manager.AddReadyzCheck("events", a.ready(feed)))
}

// addFeed adds the stream of Events where no pipeline has it. It starts from now, and
// nothing is kept of how far it came: who hears it asks for what came before.
func (a *App) addFeed(as *assembly) error {
	feed, err := a.newFeed(as)
	if err != nil {
		return err
	}
	a.atWork = func() bool { return feed.State().Position > 0 }
	return a.manager.Add(leaderOnly(func(ctx context.Context) error {
		return feed.Run(ctx, source.Start{}, func(ctx context.Context, b source.Batch) error {
			as.hear(ctx, b.Occurrences)
			return nil
		})
	}))
}

// ready says whether Events are read and committed. A replica that waits to lead
// is ready to do so.
func (a *App) ready(feed *source.Source) healthz.Checker {
	return func(*http.Request) error {
		if a.elected() {
			return feed.Healthy()
		}
		return nil
	}
}
