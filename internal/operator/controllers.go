package operator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/controller/appservice"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/internal/policies/specs"
)

var schemes = []func(*runtime.Scheme) error{
	admissionv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, authorizationv1.AddToScheme, eventsv1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme,
}

// retryDefault is the pause after an attempt to create the default rule for Secrets.
const retryDefault = 5 * time.Second

// assembly collects what features share. A shared part runs only if a chosen feature needs
// it.
type assembly struct {
	Config
	// secrets receive the metadata of all Secrets in the cluster.
	secrets []kube.SecretHandler
	// observers receive all Events, which can contain causes of failures.
	observers []func(context.Context, []alarm.Occurrence)
	// features are those that were chosen.
	features []feature.Feature
	// policies reports whether the operator can work for tenants.
	policies *policies.Gate
	// events is set if the pipeline runs the event source.
	events *source.Source
	// clusterName is the name of the cluster in messages.
	clusterName string
	// bodyFailed receives the failed expressions in the bodies of webhooks.
	bodyFailed func(receiver, text string)
}

func (as *assembly) observe(ctx context.Context, occurrences []alarm.Occurrence) {
	for _, observe := range as.observers {
		observe(ctx, occurrences)
	}
}

// addParts adds the chosen features to the manager.
func (a *App) addParts(ctx context.Context, c Config) error {
	chosen, err := c.Options.Features()
	if err != nil {
		return err
	}
	if err := a.addPermissionChecks(c, chosen); err != nil {
		return err
	}
	gate, err := a.newGate(ctx, c, chosen)
	if err != nil {
		return err
	}
	as := &assembly{Config: c, features: chosen, policies: gate}
	if as.DialPod == nil {
		as.DialPod = podDialer{a.manager.GetClient(), new(net.Dialer).DialContext}.Dial
	}
	for _, part := range controllers {
		if !slices.Contains(chosen, part.feature) {
			continue
		}
		if err := part.add(a, ctx, as); err != nil {
			return err
		}
	}
	return a.addShared(as)
}

// tenantKinds are the kinds of each feature that tenants write.
var tenantKinds = map[feature.Feature][]func() client.ObjectList{
	feature.Alarm: {
		func() client.ObjectList { return &v1alpha1.AlarmList{} }, func() client.ObjectList { return &v1alpha1.AlarmReceiverList{} },
	},
	feature.SecretShare: {
		func() client.ObjectList { return &v1alpha1.SecretShareList{} }, func() client.ObjectList { return &v1alpha1.SecretShareGrantList{} },
		func() client.ObjectList { return &v1alpha1.ClusterSecretShareList{} },
	},
	feature.Jupyter:    {func() client.ObjectList { return &v1alpha1.JupyterList{} }},
	feature.AppService: {func() client.ObjectList { return &v1alpha1.AppServiceList{} }},
}

// newGate returns the check of the admission policies, with its readiness check.
func (a *App) newGate(ctx context.Context, c Config, chosen []feature.Feature) (*policies.Gate, error) {
	manifests, err := config.Objects(feature.All())
	if err != nil {
		return nil, err
	}
	config.Confine(manifests, c.Options.UserName(), c.Options.ProtectedNamespaces)
	expected, err := specs.FromManifests(manifests)
	if err != nil {
		return nil, err
	}
	var lists []func() client.ObjectList
	for _, f := range chosen {
		lists = append(lists, tenantKinds[f]...)
	}
	gate, err := policies.NewGate(ctx, policies.Dependencies{
		Expected: expected, Cache: a.manager.GetCache(), Live: a.manager.GetAPIReader(), Client: a.manager.GetClient(),
		Record: client.ObjectKey{Namespace: c.Options.Namespace, Name: options.PoliciesName}, Lists: lists, Clock: realClock, Log: c.Log.WithName("policies"),
	})
	if err != nil {
		return nil, err
	}
	a.ready["policies"] = gate.Healthy
	return gate, nil
}

// addShared adds the shared parts that the chosen features need.
func (a *App) addShared(as *assembly) error {
	if len(as.secrets) > 0 {
		if err := a.addSecretStream(as); err != nil {
			return err
		}
	}
	if as.events == nil && len(as.observers) > 0 {
		return a.addEventSource(as)
	}
	return nil
}

func (a *App) addSecretStream(as *assembly) error {
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(as.REST), a.manager.GetHTTPClient())
	if err != nil {
		return err
	}
	return a.manager.Add(leaderOnly(kube.NewSecretStream(metadataClient, secretNamespaces(as), as.secrets...).Start))
}

// secretNamespaces returns the namespaces whose Secrets the features read; none means all.
func secretNamespaces(as *assembly) []string {
	for _, f := range as.features {
		if f == feature.AlarmSecrets || f == feature.Jupyter {
			return nil
		}
	}
	return as.Options.ShareNamespaces
}

// part adds one feature to the operator.
type part struct {
	feature feature.Feature
	add     func(*App, context.Context, *assembly) error
}

// controllers contains all controllers of the operator, by feature.
var controllers = []part{
	{feature.Alarm, (*App).addAlarms},
	{feature.SecretShare, (*App).addShares},
	{feature.Jupyter, (*App).addNotebooks},
	{feature.AppService, (*App).addApps},
}

func (a *App) addShares(_ context.Context, as *assembly) error {
	cl := a.manager.GetClient()
	shares := secretshare.New(secretshare.Dependencies{
		Client: cl, Live: a.manager.GetAPIReader(), Namespace: as.Options.Namespace,
		Protected: as.Options.ProtectedNamespaces, Only: as.Options.ShareNamespaces, RemovalDelay: secretshare.RemovalDelay, Clock: realClock,
		Metrics: as.Metrics, Policies: as.policies,
	})
	as.secrets = append(as.secrets, shares.Secrets())
	err := shares.SetUp(a.manager)
	if only := as.Options.ShareNamespaces; as.Options.DefaultShare && (len(only) == 0 || slices.Contains(only, secretshare.DefaultNamespace)) {
		err = errors.Join(err, a.manager.Add(leaderOnly(func(ctx context.Context) error { return ensureDefaultShare(ctx, cl, as) })))
	}
	return err
}

// ensureDefaultShare creates the default rule as soon as the policies protect its source. It
// retries until that succeeds or ctx ends.
func ensureDefaultShare(ctx context.Context, cl client.Client, as *assembly) error {
	_ = wait.PollUntilContextCancel(ctx, retryDefault, true, func(ctx context.Context) (bool, error) {
		state, err := as.policies.Check(ctx)
		if err == nil && state.Blocked {
			return false, nil
		}
		if err == nil {
			err = secretshare.EnsureDefault(ctx, cl, client.ObjectKey{Namespace: as.Options.Namespace, Name: options.DefaultsName})
		}
		if err != nil {
			as.Log.Error(err, "The default rule for Secrets could not be created; it is retried")
		}
		return err == nil, nil
	})
	return nil
}

func (a *App) addNotebooks(_ context.Context, as *assembly) error {
	notebooks := jupyter.New(jupyter.Dependencies{
		Client: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Clock: realClock,
		Image: as.Options.JupyterImage, DialPod: as.DialPod, Policies: as.policies,
	})
	as.secrets = append(as.secrets, notebooks.Secrets())
	as.observers = append(as.observers, notebooks.Observe)
	return notebooks.SetUp(a.manager)
}

func (a *App) addApps(_ context.Context, as *assembly) error {
	apps, err := appservice.New(appservice.Dependencies{
		Client: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Clock: realClock, Metrics: as.Metrics,
		REST: as.REST, Image: as.Options.AppServiceImage, DialPod: as.DialPod, Policies: as.policies, Features: as.features,
	})
	if err != nil {
		return err
	}
	as.observers = append(as.observers, apps.Observe)
	return apps.SetUp(a.manager)
}

// newEventSource returns the source of all Events, with its metrics and readiness check.
func (a *App) newEventSource(as *assembly) (*source.Source, error) {
	events, err := source.New(as.REST, realClock, as.Log.WithName("events"))
	if err != nil {
		return nil, err
	}
	a.ready["events"] = a.checkEvents(events)
	return events, as.Metrics.Register(events)
}

// addEventSource adds the event source if no pipeline runs it. The source starts from now
// and stores no position. The observers read earlier Events themselves.
func (a *App) addEventSource(as *assembly) error {
	events, err := a.newEventSource(as)
	if err != nil {
		return err
	}
	a.atWork = func() bool { return events.State().Position > 0 }
	return a.manager.Add(leaderOnly(func(ctx context.Context) error {
		return events.Run(ctx, source.Start{}, func(ctx context.Context, b source.Batch) error {
			as.observe(ctx, b.Occurrences)
			return nil
		})
	}))
}

// checkEvents checks that Events are read and committed. A replica that does not lead is ready.
func (a *App) checkEvents(events *source.Source) healthz.Checker {
	return func(*http.Request) error {
		if a.elected() {
			return events.Healthy()
		}
		return nil
	}
}

// addPermissionChecks checks the permissions that the chosen features need, in every
// replica.
func (a *App) addPermissionChecks(c Config, chosen []feature.Feature) error {
	needed, err := permissions.Needed(c.Options.Namespace, chosen)
	if err != nil {
		return err
	}
	if len(c.Options.ShareNamespaces) > 0 {
		// A tenant can delete such a namespace, with the permission. The operator stays ready.
		needed = permissions.OnlyIn(nil, config.ShareSecretsRole, needed)
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(c.REST, a.manager.GetHTTPClient())
	if err != nil {
		return err
	}
	checker := permissions.NewChecker(authorization.SelfSubjectAccessReviews(), needed, realClock, c.Log.WithName("permissions"))
	a.ready["permissions"] = checker.Healthy
	return errors.Join(
		c.Metrics.Register(checker),
		a.manager.Add(besideCaches{checker, a.manager.GetCache()}),
	)
}

// besideCaches starts together with the manager's caches. Other Runnables wait until the
// caches are filled, which never happens while a permission to list is missing. The check
// that reports the permission must not wait for that.
type besideCaches struct {
	*permissions.Checker
	cache cache.Cache
}

// GetCache makes the manager treat this Runnable like a cache.
func (b besideCaches) GetCache() cache.Cache { return b.cache }

// leaderOnly is a Runnable that starts when this replica leads.
type leaderOnly func(context.Context) error

var _ manager.LeaderElectionRunnable = leaderOnly(nil)

// Start implements manager.Runnable.
func (f leaderOnly) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f leaderOnly) NeedLeaderElection() bool { return true }

// everyReplica is a Runnable that starts whether or not this replica leads.
type everyReplica func(context.Context) error

var _ manager.LeaderElectionRunnable = everyReplica(nil)

// Start implements manager.Runnable.
func (f everyReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f everyReplica) NeedLeaderElection() bool { return false }
