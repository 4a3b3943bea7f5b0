package receiver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/log"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/teams"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// Sinks are what notifiers are made of, shared by all receivers.
type Sinks struct {
	// Guarded posts for receivers of a namespace, Open for those of the cluster.
	Guarded, Open *httppost.Client
	// Guard is what Guarded dials through.
	Guard *dialguard.Guard
	Log   *log.Notifier
	// Clock tells when a request is signed.
	Clock clock.PassiveClock
}

// construction is a receiver in the making.
type construction struct {
	*Reconciler
	notify.Receiver
	// read are the versions of what it is made of.
	read []string
}

// build makes the notifier of a receiver. What is the user's to correct is in the
// verdict.
func (r *Reconciler) build(ctx context.Context, object Object, key string) (notify.Receiver, status.Result, error) {
	spec := object.ClusterSpec()
	c := &construction{Reconciler: r, Receiver: notify.Receiver{Key: key}}
	err := checkAllowedNamespaces(spec.AllowedNamespaces)
	if err == nil {
		err = c.sink(ctx, &spec)
	}
	c.Fingerprint = fmt.Sprint(object.GetUID(), object.GetGeneration(), c.read)
	verdict, err := verdictOf(err)
	return c.Receiver, verdict, err
}

// Build makes the notifier of one receiver, apart from any operator: it reads Secrets
// with the rights of live. What is wrong with the receiver or its Secrets is in the
// verdict; an error is the API server's.
func Build(ctx context.Context, live client.Reader, sinks Sinks, object Object) (notify.Notifier, status.Result, error) {
	kind := v1alpha1.KindClusterAlarmReceiver
	if object.GetNamespace() != "" {
		kind = v1alpha1.KindAlarmReceiver
	}
	r := &Reconciler{kind: kind, Dependencies: Dependencies{Live: live, Sinks: sinks}}
	receiver, verdict, err := r.build(ctx, object, "")
	return receiver.Notifier, verdict, err
}

// sink makes what speaks to the one sink that the spec names.
func (c *construction) sink(ctx context.Context, spec *v1alpha1.ClusterAlarmReceiverSpec) error {
	switch {
	case spec.Slack != nil:
		return c.slack(ctx, spec.Slack)
	case spec.Teams != nil:
		return chat(ctx, c, &spec.Teams.WebhookURLSecretRef, teams.New)
	case spec.Discord != nil:
		return chat(ctx, c, &spec.Discord.WebhookURLSecretRef, discord.New)
	case spec.Telegram != nil:
		return c.telegram(ctx, spec.Telegram)
	case spec.PagerDuty != nil:
		return c.pagerDuty(ctx, spec.PagerDuty)
	case spec.Alertmanager != nil:
		return c.alertmanager(ctx, spec.Alertmanager)
	case spec.Email != nil:
		return c.email(ctx, spec.Email)
	case spec.Webhook != nil:
		return c.webhook(ctx, spec.Webhook)
	default:
		c.Notifier = c.Sinks.Log
		return nil
	}
}

// limited is a Notifier that knows how often it may be used.
type limited interface {
	notify.Notifier
	Limit() notify.Limit
}

func (c *construction) use(n limited) { c.Notifier, c.Limit = n, n.Limit() }

func checkAllowedNamespaces(selector *metav1.LabelSelector) error {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return fault(v1alpha1.ReasonInvalidMatch, "spec.allowedNamespaces: %v", err)
	}
	return nil
}
