package receiver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/notify/log"
	"github.com/bongsu-io/bongsu/internal/notify/slack"
	"github.com/bongsu-io/bongsu/internal/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/report"
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
func (r *Reconciler) build(ctx context.Context, object Object, key string) (notify.Receiver, report.Verdict, error) {
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

// sink makes what speaks to the one sink that the spec names.
func (c *construction) sink(ctx context.Context, spec *v1alpha1.ClusterAlarmReceiverSpec) error {
	switch {
	case spec.Slack != nil:
		return c.slack(ctx, spec.Slack)
	case spec.Webhook != nil:
		return c.webhook(ctx, spec.Webhook)
	default:
		c.Notifier = c.Sinks.Log
		return nil
	}
}

func (c *construction) slack(ctx context.Context, spec *v1alpha1.ClusterSlackReceiver) error {
	from := urlIn(&spec.WebhookURLSecretRef)
	raw, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	if err := c.checkURL(raw, from); err != nil {
		return err
	}
	notifier, err := slack.New(c.client(), raw)
	if err != nil {
		return invalidSecret(from, err)
	}
	c.Notifier, c.Limit = notifier, notifier.Limit()
	return nil
}

func (c *construction) webhook(ctx context.Context, spec *v1alpha1.ClusterWebhookReceiver) error {
	server, err := c.server(ctx, &spec.ClusterHTTPServer)
	if err != nil {
		return err
	}
	from := valueIn(spec.SigningKeySecretRef)
	key, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	notifier, err := webhook.New(server.client, webhook.Config{
		URL: server.url, Headers: server.headers, Format: spec.Format,
		Sign: spec.SigningKeySecretRef != nil, SigningKey: key, Clock: c.Sinks.Clock,
	})
	if err != nil {
		return invalidSecret(from, err) // URL and headers were checked before
	}
	c.Notifier = notifier
	return nil
}

func checkAllowedNamespaces(selector *metav1.LabelSelector) error {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return fault(v1alpha1.ReasonInvalidMatch, "spec.allowedNamespaces: %v", err)
	}
	return nil
}
