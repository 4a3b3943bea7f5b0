package receiver

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/netip"
	"net/url"
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// server is a ClusterHTTPServer whose Secrets were read.
type server struct {
	client  *httppost.Client
	url     string
	headers map[string][]byte
}

func (c *construction) server(ctx context.Context, spec *v1alpha1.ClusterHTTPServer) (*server, error) {
	raw, err := c.value(ctx, urlIn(spec.URLSecretRef))
	if err != nil {
		return nil, err
	}
	raw = cmp.Or(raw, string(spec.URL))
	if err := c.checkURL(raw, urlIn(spec.URLSecretRef)); err != nil {
		return nil, err
	}
	headers, err := c.headers(ctx, allOf(spec.HeadersSecretRef))
	if err != nil {
		return nil, err
	}
	client, err := c.clientFor(ctx, valueIn(spec.CASecretRef))
	if err != nil {
		return nil, err
	}
	return &server{client: client, url: raw, headers: headers}, nil
}

// checkURL blames the Secret that the URL is from for what is wrong with it.
func (c *construction) checkURL(raw string, from secretKey) error {
	if err := c.checkAddress(raw); err != nil {
		return err
	}
	if err := httppost.CheckURL(strings.TrimSpace(raw)); err != nil {
		return invalidSecret(from, err)
	}
	return nil
}

func (c *construction) headers(ctx context.Context, ref secretKey) (map[string][]byte, error) {
	headers, err := c.all(ctx, ref)
	if err != nil {
		return nil, err
	}
	if _, err := httppost.NewHeader(headers); err != nil {
		return nil, invalidSecret(ref, err)
	}
	return headers, nil
}

// clientFor is the client for this kind of receiver. Where authorities are named, it
// trusts these alone.
func (c *construction) clientFor(ctx context.Context, ca secretKey) (*httppost.Client, error) {
	roots, err := c.roots(ctx, ca)
	if err != nil || roots == nil {
		return c.client(), err
	}
	return c.client().WithRoots(roots), nil
}

// roots are nil if none are named.
func (c *construction) roots(ctx context.Context, ref secretKey) (*x509.CertPool, error) {
	pem, err := c.value(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, fault(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the key %q holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", ref.NamespacedName, ref.key)
	}
	return pool, nil
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
func (r *Reconciler) checkAddress(raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil // checkURL says what is wrong with it
	}
	return r.checkHost(u.Hostname())
}

func (r *Reconciler) checkHost(host string) error {
	addr, err := netip.ParseAddr(host)
	if r.kind != v1alpha1.KindAlarmReceiver || err != nil || r.Sinks.Guard.Check(addr) == nil {
		return nil
	}
	return fault(v1alpha1.ReasonAddressNotAllowed, "the address is in a range that receivers of a namespace may not reach: "+
		"use a public address, or ask an administrator to allow the range or to create a ClusterAlarmReceiver")
}

// invalidSecret passes on what a notifier says of the values it was made of; it
// does not tell them.
func invalidSecret(ref secretKey, err error) error {
	return fault(v1alpha1.ReasonInvalidSecret, "Secret %s: %v", ref.NamespacedName, err)
}
