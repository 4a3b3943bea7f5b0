package httppost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

func newResponse(resp *http.Response) *Response {
	class, text := classifyStatus(resp.StatusCode)
	return &Response{
		Status:     resp.StatusCode,
		Accepted:   resp.StatusCode/100 == 2,
		Class:      class,
		Text:       text,
		RetryAfter: retryAfter(resp.Header),
	}
}

// Refuse marks the message as not accepted, whatever the status is.
func (r *Response) Refuse(class notify.Class, text string) {
	r.Accepted, r.Class, r.Text = false, class, text
}

func (r *Response) sendError() *notify.SendError {
	text := r.Text
	if r.Status/100 != 2 {
		text += fmt.Sprintf(" (HTTP %s)", statusLine(r.Status))
	}
	return &notify.SendError{
		Class:      r.Class,
		Reason:     v1alpha1.ReasonDeliveryFailing,
		Text:       text,
		RetryAfter: r.RetryAfter,
	}
}

// statusLine uses the standard text of the status, because the server's is untrusted.
func statusLine(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return strconv.Itoa(code)
}

// classifyStatus returns the class and the text for a status other than 2xx. Unknown
// statuses stop the receiver, so that no message is lost.
func classifyStatus(code int) (notify.Class, string) {
	switch code {
	case http.StatusTooManyRequests:
		return notify.Retry, "the receiver asks for fewer messages" + notify.Retried
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusConflict:
		// 409: a request with this Idempotency-Key is still being processed
		// (draft-ietf-httpapi-idempotency-key-header).
		return notify.Retry, "the receiver cannot process the message now" + notify.Retried
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return notify.Reject, "the receiver refuses this message: it is dropped"
	case http.StatusUnauthorized, http.StatusForbidden:
		return notify.Stop, "the receiver refuses the credentials: correct the Secret"
	case http.StatusNotFound, http.StatusGone:
		return notify.Stop, "the receiver's URL does not exist: correct it"
	}
	switch code / 100 {
	case 3:
		return notify.Stop, "the receiver redirects, and redirects are not followed: use the new URL"
	case 5:
		return notify.Retry, "the receiver has an internal error" + notify.Retried
	}
	return notify.Stop, "the receiver does not accept messages at its URL: check the URL"
}

// retryAfter reads the header of RFC 9110, 10.2.3, which has seconds or a date. A date
// is compared with the response's own Date, so that the local clock does not matter.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// ConnectionError returns the SendError for a failed connection. It hides the text of
// err, which contains the URL and the address. If a Guard made the connection, the result
// is the same for a name that does not exist and for one that is not allowed.
func ConnectionError(err error) *notify.SendError {
	_, behindProxy := errors.AsType[*tunnelError](err)
	if errors.Is(err, dialguard.ErrNotAllowed) {
		text := "the receiver's host does not exist, or AlarmReceivers may not reach its address: " +
			"correct it, or ask the administrator to allow its range"
		if behindProxy {
			text += ". If only the proxy can resolve the host, ask for a ClusterAlarmReceiver"
		}
		return &notify.SendError{Class: notify.Stop, Reason: v1alpha1.ReasonAddressNotAllowed, Text: text}
	}
	return &notify.SendError{
		Class:  notify.Retry,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   describe(err),
	}
}

func describe(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "proxyconnect" || errors.Is(err, errNoProxy) {
		return "the proxy cannot be reached: check spec.proxyURL or HTTPS_PROXY, and the network"
	}
	if _, ok := errors.AsType[*tunnelError](err); ok && errors.Is(err, errProxyRefuses) {
		return "the proxy refuses to connect to the receiver's address: ask the administrator to allow that, or for a ClusterAlarmReceiver"
	}
	if errors.Is(err, errProxyRefuses) {
		return "the proxy refuses to connect to the receiver: check its rules"
	}
	if text := describeTLS(err); text != "" {
		return text
	}
	dnsError, isDNS := errors.AsType[*net.DNSError](err)
	netError, isNet := errors.AsType[net.Error](err)
	opError, isOp := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, dialguard.ErrNotChecked):
		return "the operator could not check whether the receiver's address is allowed" + notify.Retried
	case isDNS && dnsError.IsNotFound:
		return "the receiver's host name does not exist: correct it"
	case isDNS:
		return "the receiver's host name could not be resolved: check the cluster's DNS"
	case errors.Is(err, context.Canceled):
		return "the request was canceled"
	case isOp && opError.Op == "dial" && opError.Timeout():
		return "the receiver could not be connected to in time: check its address and the network"
	case errors.Is(err, context.DeadlineExceeded), isNet && netError.Timeout():
		return "the receiver did not answer in time: check that it is running and reachable, or increase spec.timeoutSeconds"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the receiver refused the connection: check that it is running and that the port is right"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no route to the receiver: check its address and the network"
	default:
		return "the connection to the receiver broke off: check the receiver's log"
	}
}

// describeTLS returns an empty text if err is not about TLS.
func describeTLS(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the receiver's certificate is for another host name: use the name in the certificate"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the receiver's certificate is signed by an unknown authority: set caSecretRef, or use a public authority"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "the receiver's certificate has expired or is not valid yet: renew it"
	}
	if errors.Is(err, errLongChain) {
		return fmt.Sprintf("the receiver shows more than %d certificates: remove those that it does not need", maxChain)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the receiver's certificate is not valid: replace it"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return "the receiver refuses the TLS connection: check whether it demands a client certificate, and clientCertSecretRef"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the receiver does not speak TLS: check whether the URL must begin with http"
	}
	return ""
}

func invalidRequest() *notify.SendError {
	return &notify.SendError{
		Class:  notify.Stop,
		Reason: v1alpha1.ReasonInvalidSecret,
		Text:   "the receiver's URL or headers are not valid in a request: correct them",
	}
}
