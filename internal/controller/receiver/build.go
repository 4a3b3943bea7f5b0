package receiver

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	if verdict := checkAllowedNamespaces(spec.AllowedNamespaces); !verdict.Well() {
		return notify.Receiver{}, verdict, nil
	}
	c := &construction{Reconciler: r, Receiver: notify.Receiver{Key: key}}
	var verdict report.Verdict
	var err error
	switch {
	case spec.Slack != nil:
		verdict, err = c.slack(ctx, spec.Slack)
	case spec.Webhook != nil:
		verdict, err = c.webhook(ctx, spec.Webhook)
	default:
		c.Notifier = r.Sinks.Log
	}
	c.Fingerprint = fmt.Sprint(object.GetUID(), object.GetGeneration(), c.read)
	return c.Receiver, verdict, err
}

func (c *construction) slack(ctx context.Context, spec *v1alpha1.ClusterSlackReceiver) (report.Verdict, error) {
	raw, verdict, err := c.secretValue(ctx, spec.WebhookURLSecretRef)
	if err != nil || !verdict.Well() {
		return verdict, err
	}
	if verdict := c.checkAddress(raw); !verdict.Well() {
		return verdict, nil
	}
	notifier, err := slack.New(c.client(), raw)
	if err != nil {
		return invalidSecret(secretName(spec.WebhookURLSecretRef), err), nil
	}
	c.Notifier, c.Limit = notifier, notifier.Limit()
	return report.Verdict{}, nil
}

func (c *construction) webhook(ctx context.Context, spec *v1alpha1.ClusterWebhookReceiver) (report.Verdict, error) {
	raw, verdict, err := c.webhookURL(ctx, spec)
	if err != nil || !verdict.Well() {
		return verdict, err
	}
	if verdict := c.checkAddress(raw); !verdict.Well() {
		return verdict, nil
	}
	var headers map[string][]byte
	if spec.HeadersSecretRef != nil {
		headers, verdict, err = c.secret(ctx, headersName(spec))
		if err != nil || !verdict.Well() {
			return verdict, err
		}
	}
	notifier, err := webhook.New(c.client(), raw, headers)
	if err != nil {
		return invalidSecret(blame(spec), err), nil
	}
	c.Notifier = notifier
	return report.Verdict{}, nil
}

func (c *construction) webhookURL(ctx context.Context, spec *v1alpha1.ClusterWebhookReceiver) (string, report.Verdict, error) {
	if spec.URLSecretRef == nil {
		return spec.URL, report.Verdict{}, nil
	}
	return c.secretValue(ctx, *spec.URLSecretRef)
}

// client is the one that may reach what receivers of this kind may reach.
func (r *Reconciler) client() *httppost.Client {
	if r.kind == v1alpha1.KindAlarmReceiver {
		return r.Sinks.Guarded
	}
	return r.Sinks.Open
}

// checkAddress says at once what the guard would say at the first message, where
// the URL holds an address instead of a name.
func (r *Reconciler) checkAddress(raw string) report.Verdict {
	if r.kind != v1alpha1.KindAlarmReceiver {
		return report.Verdict{}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return report.Verdict{} // the notifier says what is wrong with it
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil || r.Sinks.Guard.Check(addr) == nil {
		return report.Verdict{}
	}
	return report.Verdict{
		Reason: v1alpha1.ReasonAddressNotAllowed,
		Message: "the address is in a range that receivers of a namespace may not reach: " +
			"use a public address, or ask an administrator to allow the range or to create a ClusterAlarmReceiver",
	}
}

func checkAllowedNamespaces(selector *metav1.LabelSelector) report.Verdict {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return report.Verdict{Reason: v1alpha1.ReasonInvalidMatch, Message: fmt.Sprintf("spec.allowedNamespaces: %v", err)}
	}
	return report.Verdict{}
}

// invalidSecret passes on what a notifier says of the values it was made of; it
// does not tell them.
func invalidSecret(name types.NamespacedName, err error) report.Verdict {
	return report.Verdict{Reason: v1alpha1.ReasonInvalidSecret, Message: fmt.Sprintf("Secret %s: %v", name, err)}
}

func headersName(spec *v1alpha1.ClusterWebhookReceiver) types.NamespacedName {
	return types.NamespacedName{Namespace: spec.HeadersSecretRef.Namespace, Name: spec.HeadersSecretRef.Name}
}

// blame is the Secret that an error of the notifier is about: a URL of the spec
// was checked by the API server.
func blame(spec *v1alpha1.ClusterWebhookReceiver) types.NamespacedName {
	if spec.URLSecretRef != nil {
		return secretName(*spec.URLSecretRef)
	}
	if spec.HeadersSecretRef != nil {
		return headersName(spec)
	}
	return types.NamespacedName{}
}
