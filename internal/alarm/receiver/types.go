package receiver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/googlechat"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/mattermost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/pagerduty"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/teams"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/telegram"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
)

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
