package httppost

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// dialGuarded returns a function that connects to allowed hosts and addresses only, through the
// proxy of the environment if there is one for the host. It resolves the name and checks the
// address itself, and asks the proxy to connect to that address. Everything behind the connection,
// such as TLS, knows only the name.
func dialGuarded(cfg Config, dialer *net.Dialer) dialguard.DialFunc {
	direct, proxyOf := cfg.Guard.Dial(dialer), httpproxy.FromEnvironment().ProxyFunc()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, dialguard.ErrNotAllowed
		}
		target := &url.URL{Scheme: "https", Host: address}
		if port == "80" {
			target.Scheme = "http"
		}
		proxy, err := proxyOf(target)
		if err != nil {
			return nil, &tunnelError{errNoProxy}
		}
		if proxy == nil {
			return direct(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		addr, err := cfg.Guard.Resolve(ctx, cfg.Resolver, host)
		if err != nil {
			return nil, &tunnelError{err}
		}
		conn, err := tunnel(ctx, cfg, dialer, proxy, net.JoinHostPort(addr.String(), port))
		if err != nil {
			return nil, &tunnelError{err}
		}
		return conn, nil
	}
}

// tunnelError is an error of a guarded connection through a proxy.
type tunnelError struct{ error }

func (e *tunnelError) Unwrap() error { return e.error }

// errNoProxy means that a proxy cannot be reached.
var errNoProxy = errors.New("the proxy cannot be reached")

// tunnel connects to an address through a proxy, by the method CONNECT (RFC 9110, section 9.3.6).
func tunnel(ctx context.Context, cfg Config, dialer *net.Dialer, proxy *url.URL, address string) (net.Conn, error) {
	conn, err := dialProxy(ctx, cfg, dialer, proxy)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoProxy, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = connectThrough(conn, proxy, address)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func dialProxy(ctx context.Context, cfg Config, dialer *net.Dialer, proxy *url.URL) (net.Conn, error) {
	switch proxy.Scheme {
	case "http":
		return dialer.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), "80")))
	case "https":
		ctx = context.WithValue(ctx, viaProxy{}, true)
		return dialTLS(cfg, dialer.DialContext)(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), "443")))
	default:
		return nil, errors.ErrUnsupported
	}
}

// connectThrough asks a proxy to connect to an address.
func connectThrough(conn net.Conn, proxy *url.URL, address string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReader(io.LimitReader(conn, maxHeaderBytes))
	answer, err := http.ReadResponse(reader, req) //nolint:bodyclose // there is none after CONNECT
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		return errProxyRefuses
	}
	return nil
}

// errProxyRefuses means that a proxy does not connect to a server.
var errProxyRefuses = errors.New("the proxy refuses to connect to the server")
