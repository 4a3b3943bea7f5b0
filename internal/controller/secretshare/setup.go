package secretshare

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// writers is how many namespaces are written to at once.
const writers = 16

// Dependencies are what copying needs.
type Dependencies struct {
	Client client.Client
	// Live reads Secrets from the API server: no cache holds them.
	Live client.Reader
	// Clock is the time that Events and conditions bear.
	Clock clock.PassiveClock
	// Metrics is where metrics are registered.
	Metrics prometheus.Registerer
}

// Controllers are those of both kinds of rule, and the one that copies.
type Controllers struct {
	rules  []*Reconciler
	copier *copier
	book   *book
}

// New returns the controllers.
func New(d Dependencies) *Controllers {
	b := newBook()
	recorders := map[string]*events.Recorder{}
	for kind, controller := range map[string]string{
		v1alpha1.KindSecretShare: "secretshare-controller", v1alpha1.KindClusterSecretShare: "clustersecretshare-controller",
	} {
		recorders[kind] = events.NewRecorder(d.Client, d.Clock, controller)
	}
	rule := func(kind string, newEmpty func() Object, newList func() client.ObjectList) *Reconciler {
		return &Reconciler{
			kind: kind, newEmpty: newEmpty, newList: newList,
			client: d.Client, live: d.Live, book: b, clock: d.Clock, recorder: recorders[kind],
		}
	}
	return &Controllers{
		book: b,
		rules: []*Reconciler{
			rule(v1alpha1.KindSecretShare,
				func() Object { return &v1alpha1.SecretShare{} }, func() client.ObjectList { return &v1alpha1.SecretShareList{} }),
			rule(v1alpha1.KindClusterSecretShare,
				func() Object { return &v1alpha1.ClusterSecretShare{} }, func() client.ObjectList { return &v1alpha1.ClusterSecretShareList{} }),
		},
		copier: &copier{
			client: d.Client, live: d.Live, book: b, metrics: newMetrics(d.Metrics, b),
			recorder: func(kind string) *events.Recorder { return recorders[kind] },
		},
	}
}

// Secrets is what must hear of all Secrets of the cluster.
func (c *Controllers) Secrets() kube.SecretListener { return c.book }

// SetUp registers the controllers.
func (c *Controllers) SetUp(mgr ctrl.Manager) error {
	for _, r := range c.rules {
		if err := r.SetUp(mgr); err != nil {
			return err
		}
	}
	return builder.TypedControllerManagedBy[Item](mgr).
		Named("secretcopy").
		WithOptions(controller.TypedOptions[Item]{MaxConcurrentReconciles: writers}).
		WatchesRawSource(source.TypedFunc[Item](c.hear)).
		Complete(c.copier)
}

func (c *Controllers) hear(_ context.Context, queue workqueue.TypedRateLimitingInterface[Item]) error {
	c.book.obey(queue.Add)
	return nil
}
