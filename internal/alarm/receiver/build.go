// Package receiver builds notifiers from AlarmReceivers and ClusterAlarmReceivers, and the
// Secrets that they name. It also decides which namespaces may use a receiver.
package receiver

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/log"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/pagerduty"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/teams"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/telegram"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/version"
)

// Object is an AlarmReceiver or a ClusterAlarmReceiver.
type Object interface {
	client.Object
	ClusterSpec() v1alpha1.ClusterAlarmReceiverSpec
}

// Sinks are the parts of notifiers that all receivers share.
type Sinks struct {
	// Guarded posts for AlarmReceivers, Open for ClusterAlarmReceivers.
	Guarded, Open *httppost.Client
	// Guard limits the addresses to which Guarded connects.
	Guard *dialguard.Guard
	Log   *log.Notifier
	// Clock is for the times of signatures.
	Clock clock.PassiveClock
}

// NewSinks returns Sinks whose guard allows AlarmReceivers public addresses and these
// ranges. Log receivers write to out.
func NewSinks(allowed []netip.Prefix, out io.Writer, clock clock.PassiveClock) Sinks {
	guard := dialguard.New(allowed...)
	agent := "bongsu/" + version.String()
	return Sinks{
		Guarded: httppost.New(httppost.Config{UserAgent: agent, Guard: guard}),
		Open:    httppost.New(httppost.Config{UserAgent: agent}),
		Guard:   guard,
		Log:     log.New(out),
		Clock:   clock,
	}
}

// ConfigError describes what the user must correct before a receiver can be built.
type ConfigError struct {
	// Reason is a reason of the Ready condition, such as v1alpha1.ReasonSecretNotFound.
	Reason string
	// Message says what is wrong and what to do. It contains no secret values.
	Message string
}

func (e *ConfigError) Error() string { return e.Message }

func configError(reason, format string, args ...any) error {
	return &ConfigError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// construction builds one receiver.
type construction struct {
	kind     string
	live     client.Reader
	sinks    Sinks
	receiver notify.Receiver
	// versions are those of the Secrets that were read.
	versions []string
}

// Build builds the receiver with this key. It reads the Secrets through live. Its error is
// a *ConfigError, which the user must correct, or comes from the API server.
func Build(ctx context.Context, live client.Reader, sinks Sinks, key kube.Key, object Object) (notify.Receiver, error) {
	b := &construction{kind: key.Kind, live: live, sinks: sinks, receiver: notify.Receiver{Key: key.String()}}
	spec := object.ClusterSpec()
	if err := checkAllowedNamespaces(spec.AllowedNamespaces); err != nil {
		return notify.Receiver{}, err
	}
	if err := b.notifier(ctx, &spec); err != nil {
		return notify.Receiver{}, err
	}
	b.receiver.Fingerprint = fmt.Sprint(object.GetUID(), object.GetGeneration(), b.versions)
	return b.receiver, nil
}

// notifier builds the notifier of the one type that the spec has.
func (b *construction) notifier(ctx context.Context, spec *v1alpha1.ClusterAlarmReceiverSpec) error {
	switch {
	case spec.Slack != nil:
		return b.slack(ctx, spec.Slack)
	case spec.Teams != nil:
		return chat(ctx, b, &spec.Teams.WebhookURLSecretRef, teams.New)
	case spec.Discord != nil:
		return chat(ctx, b, &spec.Discord.WebhookURLSecretRef, discord.New)
	case spec.Telegram != nil:
		return b.telegram(ctx, spec.Telegram)
	case spec.PagerDuty != nil:
		return b.pagerDuty(ctx, spec.PagerDuty)
	case spec.Alertmanager != nil:
		return b.alertmanager(ctx, spec.Alertmanager)
	case spec.Email != nil:
		return b.email(ctx, spec.Email)
	case spec.Webhook != nil:
		return b.webhook(ctx, spec.Webhook)
	default:
		b.receiver.Notifier = b.sinks.Log
		return nil
	}
}

// limited is a Notifier with a rate limit.
type limited interface {
	notify.Notifier
	Limit() notify.Limit
}

func (b *construction) use(n limited) { b.receiver.Notifier, b.receiver.Limit = n, n.Limit() }

func checkAllowedNamespaces(selector *metav1.LabelSelector) error {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return configError(v1alpha1.ReasonInvalidMatch, "spec.allowedNamespaces: %v", err)
	}
	return nil
}

// chat builds a notifier that posts to the webhook of a chat.
func chat[N limited](ctx context.Context, b *construction, ref *v1alpha1.ClusterSecretURLReference, newNotifier func(*httppost.Client, string) (N, error)) error {
	from := urlIn(ref)
	raw, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	if err := b.checkURL(raw, from); err != nil {
		return err
	}
	notifier, err := newNotifier(b.client(), raw)
	if err != nil {
		return invalidSecret(from, err)
	}
	b.use(notifier)
	return nil
}

func (b *construction) slack(ctx context.Context, spec *v1alpha1.ClusterSlackReceiver) error {
	if spec.WebhookURLSecretRef != nil {
		return chat(ctx, b, spec.WebhookURLSecretRef, slack.New)
	}
	from := valueIn(spec.TokenSecretRef)
	token, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	api := cmp.Or(string(spec.APIURL), slack.DefaultAPI)
	if err := b.checkAddress(api); err != nil {
		return err
	}
	bot, err := slack.NewBot(b.client(), slack.BotConfig{API: api, Token: token, Channel: spec.Channel, Clock: b.sinks.Clock})
	if err != nil {
		return invalidSecret(from, err)
	}
	b.use(bot)
	return nil
}

func (b *construction) telegram(ctx context.Context, spec *v1alpha1.ClusterTelegramReceiver) error {
	from := valueIn(&spec.TokenSecretRef)
	token, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	if err := b.checkAddress(string(spec.APIURL)); err != nil {
		return err
	}
	notifier, err := telegram.New(b.client(), telegram.Config{
		URL: string(spec.APIURL), Token: token, ChatID: spec.ChatID, ThreadID: spec.ThreadID,
	})
	if err != nil {
		return invalidSecret(from, err)
	}
	b.use(notifier)
	return nil
}

func (b *construction) pagerDuty(ctx context.Context, spec *v1alpha1.ClusterPagerDutyReceiver) error {
	from := valueIn(&spec.RoutingKeySecretRef)
	key, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	if err := b.checkAddress(string(spec.APIURL)); err != nil {
		return err
	}
	b.receiver.Notifier, err = pagerduty.New(b.client(), pagerduty.Config{
		URL: string(spec.APIURL), RoutingKey: key, Severity: string(spec.Severity),
	})
	if err != nil {
		return invalidSecret(from, err)
	}
	return nil
}

func (b *construction) alertmanager(ctx context.Context, spec *v1alpha1.ClusterAlertmanagerReceiver) error {
	server, err := b.server(ctx, &spec.ClusterHTTPServer)
	if err != nil {
		return err
	}
	b.receiver.Notifier, err = alertmanager.New(server.client, alertmanager.Config{
		URL: server.url, Headers: server.headers, ResolveAfter: time.Duration(spec.ResolveAfterSeconds) * time.Second,
	})
	return err // URL and headers were checked before
}

func (b *construction) email(ctx context.Context, spec *v1alpha1.ClusterEmailReceiver) error {
	from := allOf(spec.CredentialsSecretRef)
	credentials, err := b.all(ctx, from)
	if err != nil {
		return err
	}
	client, err := b.clientFor(ctx, valueIn(spec.CASecretRef))
	if err != nil {
		return err
	}
	if err := b.checkHost(spec.Host); err != nil {
		return err
	}
	config := email.Config{
		Host: spec.Host, Port: spec.Port, TLS: spec.TLS, From: string(spec.From),
		Username: string(credentials["username"]), Password: string(credentials["password"]),
	}
	for _, to := range spec.To {
		config.To = append(config.To, string(to))
	}
	if from.Name != "" && (config.Username == "" || config.Password == "") {
		return configError(v1alpha1.ReasonInvalidSecret, "Secret %s must have the keys username and password", from.NamespacedName)
	}
	notifier, err := email.New(client, config)
	if err != nil {
		return configError(v1alpha1.ReasonInvalidSecret, "spec.email: %v", err)
	}
	b.use(notifier)
	return nil
}

func (b *construction) webhook(ctx context.Context, spec *v1alpha1.ClusterWebhookReceiver) error {
	server, err := b.server(ctx, &spec.ClusterHTTPServer)
	if err != nil {
		return err
	}
	from := valueIn(spec.SigningKeySecretRef)
	key, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	b.receiver.Notifier, err = webhook.New(server.client, webhook.Config{
		URL: server.url, Headers: server.headers, Format: spec.Format,
		Sign: spec.SigningKeySecretRef != nil, SigningKey: key, Clock: b.sinks.Clock,
	})
	if err != nil {
		return invalidSecret(from, err) // URL and headers were checked before
	}
	return nil
}

// server is a ClusterHTTPServer with the values of its Secrets.
type server struct {
	client  *httppost.Client
	url     string
	headers map[string][]byte
}

func (b *construction) server(ctx context.Context, spec *v1alpha1.ClusterHTTPServer) (*server, error) {
	raw, err := b.value(ctx, urlIn(spec.URLSecretRef))
	if err != nil {
		return nil, err
	}
	raw = cmp.Or(raw, string(spec.URL))
	if err := b.checkURL(raw, urlIn(spec.URLSecretRef)); err != nil {
		return nil, err
	}
	headers, err := b.headers(ctx, allOf(spec.HeadersSecretRef))
	if err != nil {
		return nil, err
	}
	client, err := b.clientFor(ctx, valueIn(spec.CASecretRef))
	if err != nil {
		return nil, err
	}
	return &server{client: client, url: raw, headers: headers}, nil
}

// checkURL checks a URL. An error names the Secret that contains it.
func (b *construction) checkURL(raw string, from secretKey) error {
	if err := b.checkAddress(raw); err != nil {
		return err
	}
	if err := httppost.CheckURL(strings.TrimSpace(raw)); err != nil {
		return invalidSecret(from, err)
	}
	return nil
}

func (b *construction) headers(ctx context.Context, ref secretKey) (map[string][]byte, error) {
	headers, err := b.all(ctx, ref)
	if err != nil {
		return nil, err
	}
	if _, err := httppost.NewHeader(headers); err != nil {
		return nil, invalidSecret(ref, err)
	}
	return headers, nil
}

// clientFor returns the client for this kind of receiver. If the receiver names
// certificate authorities, the client trusts only these.
func (b *construction) clientFor(ctx context.Context, ca secretKey) (*httppost.Client, error) {
	roots, err := b.roots(ctx, ca)
	if err != nil || roots == nil {
		return b.client(), err
	}
	return b.client().WithRoots(roots), nil
}

// roots returns the named certificate authorities; nil if there are none.
func (b *construction) roots(ctx context.Context, ref secretKey) (*x509.CertPool, error) {
	pem, err := b.value(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the key %q holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", ref.NamespacedName, ref.key)
	}
	return pool, nil
}

// client returns the client that can connect to the addresses that this kind of receiver
// may use.
func (b *construction) client() *httppost.Client {
	if b.kind == v1alpha1.KindAlarmReceiver {
		return b.sinks.Guarded
	}
	return b.sinks.Open
}

// checkAddress refuses a URL with an IP address that the guard would refuse at the first
// message.
func (b *construction) checkAddress(raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil // checkURL reports it
	}
	return b.checkHost(u.Hostname())
}

func (b *construction) checkHost(host string) error {
	addr, err := netip.ParseAddr(host)
	if b.kind != v1alpha1.KindAlarmReceiver || err != nil || b.sinks.Guard.Check(addr) == nil {
		return nil
	}
	return configError(v1alpha1.ReasonAddressNotAllowed, "AlarmReceivers may not use addresses in this range: "+
		"use a public one, or ask an administrator to allow the range or to create a ClusterAlarmReceiver")
}

// invalidSecret is the error for a Secret whose values a notifier refuses. The message of
// a notifier contains no values.
func invalidSecret(ref secretKey, err error) error {
	return configError(v1alpha1.ReasonInvalidSecret, "Secret %s: %v", ref.NamespacedName, err)
}
