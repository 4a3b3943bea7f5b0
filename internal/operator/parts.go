package operator

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

var schemes = []func(*runtime.Scheme) error{
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme,
}

// assembly is an operator that is being put together: what the capabilities share is
// started only if one of those that were chosen has a use for it.
type assembly struct {
	Config
	// secrets are told of all Secrets of the cluster.
	secrets []kube.SecretHandler
	// hearers are told of all Events: some tell why what somebody asked for does not run.
	hearers []func(context.Context, []alarm.Occurrence)
	// feed is there if the pipeline runs it.
	feed *source.Source
}

func (as *assembly) hear(ctx context.Context, occurrences []alarm.Occurrence) {
	for _, hear := range as.hearers {
		hear(ctx, occurrences)
	}
}

// addParts makes everything that was chosen to run and hands it to the manager.
func (a *App) addParts(ctx context.Context, c Config) error {
	chosen, err := c.Options.Capabilities()
	if err != nil {
		return err
	}
	if err := a.addRights(c, chosen); err != nil {
		return err
	}
	as := &assembly{Config: c}
	for _, part := range controllers {
		if !slices.Contains(chosen, part.capability) {
			continue
		}
		if err := part.add(a, ctx, as); err != nil {
			return err
		}
	}
	return a.addShared(as)
}

// addShared adds what the chosen capabilities turned out to need.
func (a *App) addShared(as *assembly) error {
	if len(as.secrets) > 0 {
		if err := a.addSecretStream(as); err != nil {
			return err
		}
	}
	if as.feed == nil && len(as.hearers) > 0 {
		return a.addFeed(as)
	}
	return nil
}

func (a *App) addSecretStream(as *assembly) error {
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(as.REST), a.manager.GetHTTPClient())
	if err != nil {
		return err
	}
	return a.manager.Add(leaderOnly(kube.NewSecretStream(metadataClient, as.secrets...).Start))
}

// part is what one capability adds to the operator.
type part struct {
	capability feature.Feature
	add        func(*App, context.Context, *assembly) error
}

// leaderOnly makes a Runnable that waits for leadership of a function.
type leaderOnly func(context.Context) error

var _ manager.LeaderElectionRunnable = leaderOnly(nil)

// Start implements manager.Runnable.
func (f leaderOnly) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f leaderOnly) NeedLeaderElection() bool { return true }
