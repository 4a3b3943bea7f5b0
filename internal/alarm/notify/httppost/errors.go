package httppost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// ConnectionError words err, whose own text tells the URL and the address.
func ConnectionError(err error) *notify.SendError {
	if errors.Is(err, dialguard.ErrNotAllowed) {
		return &notify.SendError{
			Class:  notify.Park,
			Reason: v1alpha1.ReasonAddressNotAllowed,
			Text: "the receiver's address is a loopback, link-local, private or other special one, which receivers of a namespace may not reach; " +
				"use a public address, or ask the administrator to allow its range",
		}
	}
	return &notify.SendError{
		Class:  notify.Retry,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   describe(err),
	}
}

func describe(err error) string {
	if text := describeTLS(err); text != "" {
		return text
	}
	dnsError, isDNS := errors.AsType[*net.DNSError](err)
	netError, isNet := errors.AsType[net.Error](err)
	switch {
	case isDNS && dnsError.IsNotFound:
		return "the receiver's host name does not exist; check the URL"
	case isDNS:
		return "the receiver's host name could not be looked up"
	case errors.Is(err, context.Canceled):
		return "the request was abandoned"
	case errors.Is(err, context.DeadlineExceeded), isNet && netError.Timeout():
		return "the receiver did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the receiver refused the connection; check that it is running and that the URL's port is right"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no route to the receiver"
	default:
		return "the connection to the receiver broke off"
	}
}

// describeTLS is empty if err does not come of TLS.
func describeTLS(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the receiver's certificate is for another host name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the receiver's certificate is signed by an unknown authority"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "the receiver's certificate has expired or is not valid yet"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the receiver's certificate is not valid"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the receiver does not speak TLS; check whether the URL should begin with http"
	}
	return ""
}

func invalidRequest() *notify.SendError {
	return &notify.SendError{
		Class:  notify.Park,
		Reason: v1alpha1.ReasonInvalidSecret,
		Text:   "the receiver's URL or headers cannot be used for a request",
	}
}
