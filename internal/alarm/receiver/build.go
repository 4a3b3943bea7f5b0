// Package receiver builds notifiers from AlarmReceivers and ClusterAlarmReceivers, and the
// Secrets that they name. It also decides which namespaces may use a receiver.
package receiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/googlechat"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/log"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/mattermost"
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
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Sinks are the parts of notifiers that all receivers share.
type Sinks struct {
	// Guarded posts for AlarmReceivers, Open for ClusterAlarmReceivers.
	Guarded, Open *httppost.Client
	// Guard limits the hosts and addresses to which Guarded connects.
	Guard *dialguard.Guard
	Log   *log.Notifier
	// Clock is for the times of signatures and the time limits of email.
	Clock clock.PassiveClock
	// Cluster is the name of the cluster in test messages.
	Cluster string
	// HelloName is the operator's name for mail servers. If it is empty, it is the
	// operator's address.
	HelloName string
	// BodyFailed is called if an expression in the body of a webhook failed. The text is for
	// the receiver's owner. Optional.
	BodyFailed func(receiver, text string)
}

// NewSinks returns Sinks with a guard for AlarmReceivers. Log receivers write to out.
func NewSinks(guarded dialguard.Config, out io.Writer, clock clock.PassiveClock) Sinks {
	guard := dialguard.New(clock, guarded)
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
	timeout  time.Duration
	proxy    *url.URL
	live     client.Reader
	sinks    Sinks
	receiver notify.Receiver
	// vendor are the rate limits of the receiver type.
	vendor []notify.Limit
	// versions are those of the Secrets that were read.
	versions []string
}

// Build builds the receiver with this key. It reads the Secrets through live. Its error is
// a *ConfigError, which the user must correct, or comes from the API server.
func Build(ctx context.Context, live client.Reader, sinks Sinks, key kube.Key, object Object) (notify.Receiver, error) {
	b := &construction{kind: key.Kind, live: live, sinks: sinks, receiver: notify.Receiver{Key: key.String(), UID: string(object.GetUID()), Namespace: key.Namespace}}
	spec := object.ClusterSpec()
	b.timeout = time.Duration(spec.TimeoutSeconds) * time.Second
	if err := checkAllowedNamespaces(spec.AllowedNamespaces); err != nil {
		return notify.Receiver{}, err
	}
	if spec.ProxyURL != "" {
		var err error
		if b.proxy, err = url.Parse(string(spec.ProxyURL)); err != nil {
			return notify.Receiver{}, configError(v1alpha1.ReasonInvalidMatch, "spec.proxyURL: %v", httppost.ErrInvalidURL)
		}
	}
	if err := b.notifier(ctx, &spec.AlarmReceiverSpec); err != nil {
		return notify.Receiver{}, err
	}
	b.receiver.Limits = limits(key.Namespace, b.vendor)
	b.receiver.ResolvesAlone = len(b.vendor) == 0
	if drop := object.GetAnnotations()[v1alpha1.AnnotationDrop]; len(drop) <= maxDrop {
		b.receiver.Drop, b.receiver.Dropped = drop, object.AlarmStatus().HandledDrop
	}
	b.test(object)
	// A user annotates the receiver to end a pause.
	b.receiver.Fingerprint = fmt.Sprint(object.GetUID(), object.GetGeneration(), object.GetAnnotations(), b.versions)
	return b.receiver, nil
}

// notifier builds the notifier of the one type that the spec has.
func (b *construction) notifier(ctx context.Context, spec *v1alpha1.AlarmReceiverSpec) error {
	switch {
	case spec.Slack != nil:
		return b.slack(ctx, spec.Slack)
	case spec.Teams != nil:
		return b.chat(ctx, &spec.Teams.WebhookURLSecretRef, teams.New)
	case spec.Discord != nil:
		return b.chat(ctx, &spec.Discord.WebhookURLSecretRef, discord.New)
	case spec.GoogleChat != nil:
		return b.chat(ctx, &spec.GoogleChat.WebhookURLSecretRef, googlechat.New)
	case spec.Mattermost != nil:
		return b.chat(ctx, &spec.Mattermost.WebhookURLSecretRef, mattermost.New)
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

func (b *construction) use(n limited, further ...notify.Limit) {
	b.receiver.Notifier = n
	b.vendor = append(b.vendor, n.Limit())
	b.vendor = append(b.vendor, further...)
}

// Rate of all AlarmReceivers of a namespace together. It bounds what the operator does for
// one tenant, and the lines in its output.
const (
	namespaceInterval = 100 * time.Millisecond
	namespaceBurst    = 100
)

// limits returns the rate limits of a receiver. Only receivers of the same namespace, or
// only ClusterAlarmReceivers, share a limit of the vendor. If others shared it, a tenant
// who knows the address could hold back their messages.
func limits(namespace string, vendor []notify.Limit) []notify.Limit {
	var all []notify.Limit
	for _, limit := range vendor {
		if limit.Key != "" {
			limit.Key = namespace + "/" + limit.Key
		}
		all = append(all, limit)
	}
	if namespace != "" {
		all = append(all, notify.Limit{Key: namespace, Every: namespaceInterval, Burst: namespaceBurst})
	}
	return all
}

// test sets the test message that an annotation asks for.
func (b *construction) test(object Object) {
	b.receiver.Tested = object.AlarmStatus().HandledTest
	value := TestValue(object)
	if value == "" {
		return
	}
	b.receiver.Test = notify.Test{Value: value, Message: message.OfTest(b.sinks.Cluster, message.Reference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: b.kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()),
	}, b.sinks.Clock.Now())}
}

// TestValue returns the value of AlarmStatus.HandledTest after the test message that an annotation
// asks for. It is empty without the annotation.
func TestValue(object client.Object) string {
	value := object.GetAnnotations()[v1alpha1.AnnotationSendTest]
	if len(value) > maxTest {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(value)))
	}
	return value
}

// maxTest is the maximum length of AlarmStatus.HandledTest, which contains the hash of a longer
// value.
const maxTest = 64

// maxDrop is the maximum length of v1alpha1.AnnotationDrop, as of AlarmStatus.HandledDrop.
const maxDrop = 64

func checkAllowedNamespaces(selector *metav1.LabelSelector) error {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return configError(v1alpha1.ReasonInvalidMatch, "spec.allowedNamespaces: %v", err)
	}
	return nil
}

// chat builds a notifier that posts to the webhook of a chat.
func (b *construction) chat(ctx context.Context, ref *v1alpha1.SecretURLReference, newHook func(*httppost.Client, string) (*httppost.Hook, error)) error {
	from := urlIn(ref)
	raw, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	if err := b.checkURL(raw, from); err != nil {
		return err
	}
	hook, err := newHook(b.client(), raw)
	if err != nil {
		return invalidSecret(from, err)
	}
	b.use(hook)
	return nil
}

func (b *construction) slack(ctx context.Context, spec *v1alpha1.SlackReceiver) error {
	if spec.WebhookURLSecretRef != nil {
		return b.chat(ctx, spec.WebhookURLSecretRef, func(client *httppost.Client, url string) (*httppost.Hook, error) {
			return slack.New(client, url, spec.Mentions)
		})
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
	channels := slack.Channels{Default: spec.Channel, From: spec.ChannelFrom}
	bot, err := slack.NewBot(b.client(), slack.BotConfig{API: api, Token: token, Channels: channels, Mentions: spec.Mentions, Clock: b.sinks.Clock})
	if err != nil {
		return invalidSecret(from, err)
	}
	b.use(bot, bot.WorkspaceLimit())
	if spec.ChannelFrom != nil {
		b.receiver.Destination = channels.Choose
	}
	return nil
}

func (b *construction) telegram(ctx context.Context, spec *v1alpha1.TelegramReceiver) error {
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

func (b *construction) pagerDuty(ctx context.Context, spec *v1alpha1.PagerDutyReceiver) error {
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

func (b *construction) alertmanager(ctx context.Context, spec *v1alpha1.AlertmanagerReceiver) error {
	server, err := b.server(ctx, &spec.HTTPServer)
	if err != nil {
		return err
	}
	b.receiver.Notifier, err = alertmanager.New(server.client, alertmanager.Config{
		URL: server.url, Headers: server.headers, ResolveAfter: time.Duration(spec.ResolveAfterSeconds) * time.Second, Clock: b.sinks.Clock,
	})
	return err // URL and headers were checked before
}

func (b *construction) email(ctx context.Context, spec *v1alpha1.EmailReceiver) error {
	from := allOf(spec.CredentialsSecretRef)
	credentials, err := b.all(ctx, from)
	if err != nil {
		return err
	}
	client, err := b.clientFor(ctx, valueIn(spec.CASecretRef), secretKey{})
	if err != nil {
		return err
	}
	if err := b.checkHost(spec.Host); err != nil {
		return err
	}
	config := email.Config{
		Host: spec.Host, Port: spec.Port, TLS: spec.TLS, From: string(spec.From),
		Username: string(credentials["username"]), Password: string(credentials["password"]),
		HelloName: b.sinks.HelloName, Timeout: b.timeout, Clock: b.sinks.Clock,
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

func (b *construction) webhook(ctx context.Context, spec *v1alpha1.WebhookReceiver) error {
	server, err := b.server(ctx, &spec.HTTPServer)
	if err != nil {
		return err
	}
	headers, err := addHeaders(server.headers, spec.Headers)
	if err != nil {
		return err
	}
	from := valueIn(spec.SigningKeySecretRef)
	key, err := b.value(ctx, from)
	if err != nil {
		return err
	}
	b.receiver.Notifier, err = webhook.New(server.client, webhook.Config{
		URL: server.url, Headers: headers, Request: spec.WebhookRequest,
		Sign: spec.SigningKeySecretRef != nil, SigningKey: key, Clock: b.sinks.Clock, BodyFailed: b.bodyFailed(),
	})
	if invalid, ok := errors.AsType[*match.CompileError](err); ok {
		return configError(invalid.Reason, "%v", invalid)
	}
	if err != nil {
		return invalidSecret(from, err) // URL and headers were checked before
	}
	return nil
}

// addHeaders returns the headers of a Secret together with those of the spec.
func addHeaders(secret map[string][]byte, spec []v1alpha1.HTTPHeader) (map[string][]byte, error) {
	all := map[string][]byte{}
	maps.Copy(all, secret)
	for _, h := range spec {
		if _, ok := all[h.Name]; ok {
			return nil, configError(v1alpha1.ReasonInvalidSecret,
				"spec.webhook.headers: the Secret of headersSecretRef contains the header %s too: remove one", h.Name)
		}
		all[h.Name] = []byte(h.Value)
	}
	if _, err := httppost.NewHeader(all); err != nil {
		return nil, configError(v1alpha1.ReasonInvalidSecret, "spec.webhook.headers: %v", err)
	}
	return all, nil
}

// bodyFailed returns the function that reports a failed expression of this receiver.
func (b *construction) bodyFailed() func(string) {
	if b.sinks.BodyFailed == nil {
		return nil
	}
	key := b.receiver.Key
	return func(text string) { b.sinks.BodyFailed(key, text) }
}

// server is a HTTPServer with the values of its Secrets.
type server struct {
	client  *httppost.Client
	url     string
	headers map[string][]byte
}

func (b *construction) server(ctx context.Context, spec *v1alpha1.HTTPServer) (*server, error) {
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
	client, err := b.clientFor(ctx, valueIn(spec.CASecretRef), allOf(spec.ClientCertSecretRef))
	if err != nil {
		return nil, err
	}
	if client, err = b.withTokens(ctx, client, spec.OAuth2, headers); err != nil {
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
// certificate authorities, the client trusts only these. If it names a certificate, the
// client shows it to servers that ask for one.
func (b *construction) clientFor(ctx context.Context, ca, cert secretKey) (*httppost.Client, error) {
	roots, err := b.roots(ctx, ca)
	if err != nil {
		return nil, err
	}
	certificate, err := b.certificate(ctx, cert)
	if err != nil {
		return nil, err
	}
	if roots == nil && certificate == nil {
		return b.client(), nil
	}
	return b.client().With(func(c *httppost.Config) { c.Roots, c.Certificate = roots, certificate }), nil
}

// withTokens returns a client that sends access tokens, if the receiver uses OAuth 2.0.
func (b *construction) withTokens(ctx context.Context, client *httppost.Client, spec *v1alpha1.OAuth2, headers map[string][]byte) (*httppost.Client, error) {
	if spec == nil {
		return client, nil
	}
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return nil, configError(v1alpha1.ReasonInvalidSecret,
				"oauth2 sets the header Authorization, and the Secret of headersSecretRef contains it too: remove one of them")
		}
	}
	from := valueIn(&spec.ClientSecretRef)
	secret, err := b.value(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := b.checkURL(string(spec.TokenURL), from); err != nil {
		return nil, err
	}
	return client.WithOAuth2(httppost.OAuth2{
		TokenURL: string(spec.TokenURL), ClientID: spec.ClientID, ClientSecret: strings.TrimSpace(secret),
		Scopes: spec.Scopes, Audience: spec.Audience, InBody: spec.Authentication == v1alpha1.OAuth2Body, Clock: b.sinks.Clock,
	}), nil
}

// client returns the client that can connect to the addresses that this kind of receiver
// may use.
func (b *construction) client() *httppost.Client {
	if b.kind == v1alpha1.KindAlarmReceiver {
		return b.sinks.Guarded.WithTimeout(b.timeout)
	}
	open := b.sinks.Open.WithTimeout(b.timeout)
	if b.proxy == nil {
		return open
	}
	return open.With(func(c *httppost.Config) { c.Proxy = b.proxy })
}

// checkAddress refuses a URL with a host or an IP address that the guard would refuse at
// the first message, whatever Nodes there are then.
func (b *construction) checkAddress(raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil // checkURL reports it
	}
	return b.checkHost(u.Hostname())
}

func (b *construction) checkHost(host string) error {
	if b.kind != v1alpha1.KindAlarmReceiver || host == "" {
		return nil
	}
	if b.sinks.Guard.CheckHost(host) != nil {
		return configError(v1alpha1.ReasonAddressNotAllowed, "AlarmReceivers may not use this host: "+
			"use another one, or ask an administrator to allow it or to create a ClusterAlarmReceiver")
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || b.sinks.Guard.Check(addr) == nil {
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
