package receiver

import (
	"cmp"
	"context"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/email"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/pagerduty"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/telegram"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
)

// chat makes what posts through a webhook of a chat.
func chat[N limited](ctx context.Context, c *construction, ref *v1alpha1.ClusterSecretURLReference, newNotifier func(*httppost.Client, string) (N, error)) error {
	from := urlIn(ref)
	raw, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	if err := c.checkURL(raw, from); err != nil {
		return err
	}
	notifier, err := newNotifier(c.client(), raw)
	if err != nil {
		return invalidSecret(from, err)
	}
	c.use(notifier)
	return nil
}

func (c *construction) slack(ctx context.Context, spec *v1alpha1.ClusterSlackReceiver) error {
	if spec.WebhookURLSecretRef != nil {
		return chat(ctx, c, spec.WebhookURLSecretRef, slack.New)
	}
	from := valueIn(spec.TokenSecretRef)
	token, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	api := cmp.Or(string(spec.APIURL), slack.DefaultAPI)
	if err := c.checkAddress(api); err != nil {
		return err
	}
	bot, err := slack.NewBot(c.client(), slack.BotConfig{API: api, Token: token, Channel: spec.Channel, Clock: c.Sinks.Clock})
	if err != nil {
		return invalidSecret(from, err)
	}
	c.use(bot)
	return nil
}

func (c *construction) telegram(ctx context.Context, spec *v1alpha1.ClusterTelegramReceiver) error {
	from := valueIn(&spec.TokenSecretRef)
	token, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	if err := c.checkAddress(string(spec.APIURL)); err != nil {
		return err
	}
	notifier, err := telegram.New(c.client(), telegram.Config{
		URL: string(spec.APIURL), Token: token, ChatID: spec.ChatID, ThreadID: spec.ThreadID,
	})
	if err != nil {
		return invalidSecret(from, err)
	}
	c.use(notifier)
	return nil
}

func (c *construction) pagerDuty(ctx context.Context, spec *v1alpha1.ClusterPagerDutyReceiver) error {
	from := valueIn(&spec.RoutingKeySecretRef)
	key, err := c.value(ctx, from)
	if err != nil {
		return err
	}
	if err := c.checkAddress(string(spec.APIURL)); err != nil {
		return err
	}
	c.Notifier, err = pagerduty.New(c.client(), pagerduty.Config{
		URL: string(spec.APIURL), RoutingKey: key, Severity: string(spec.Severity),
	})
	if err != nil {
		return invalidSecret(from, err)
	}
	return nil
}

func (c *construction) alertmanager(ctx context.Context, spec *v1alpha1.ClusterAlertmanagerReceiver) error {
	server, err := c.server(ctx, &spec.ClusterHTTPServer)
	if err != nil {
		return err
	}
	c.Notifier, err = alertmanager.New(server.client, alertmanager.Config{
		URL: server.url, Headers: server.headers, ResolveAfter: time.Duration(spec.ResolveAfterSeconds) * time.Second,
	})
	return err // URL and headers were checked before
}

func (c *construction) email(ctx context.Context, spec *v1alpha1.ClusterEmailReceiver) error {
	from := allOf(spec.CredentialsSecretRef)
	credentials, err := c.all(ctx, from)
	if err != nil {
		return err
	}
	client, err := c.clientFor(ctx, valueIn(spec.CASecretRef))
	if err != nil {
		return err
	}
	if err := c.checkHost(spec.Host); err != nil {
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
		return fault(v1alpha1.ReasonInvalidSecret, "Secret %s must have the keys username and password", from.NamespacedName)
	}
	notifier, err := email.New(client, config)
	if err != nil {
		return fault(v1alpha1.ReasonInvalidSecret, "spec.email: %v", err)
	}
	c.use(notifier)
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
	c.Notifier, err = webhook.New(server.client, webhook.Config{
		URL: server.url, Headers: server.headers, Format: spec.Format,
		Sign: spec.SigningKeySecretRef != nil, SigningKey: key, Clock: c.Sinks.Clock,
	})
	if err != nil {
		return invalidSecret(from, err) // URL and headers were checked before
	}
	return nil
}
