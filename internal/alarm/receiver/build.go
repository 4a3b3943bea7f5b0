// Package receiver builds notifiers from AlarmReceivers and ClusterAlarmReceivers, and the
// Secrets that they name. It also decides which namespaces may use a receiver.
package receiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/kube"
)

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
