package httppost

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// Config of a Client.
type Config struct {
	// UserAgent is sent with each request.
	UserAgent string
	// Guard checks each host and address before the client connects. A proxy of the environment
	// connects to the address that was checked. Nil allows all addresses.
	Guard *dialguard.Guard
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// Roots are the trusted certificate authorities; nil means those of the system.
	Roots *x509.CertPool
	// Certificate is the client's own, for servers that ask for one. It is shown to neither a
	// proxy nor a token server. Optional.
	Certificate *tls.Certificate
	// Proxy is the proxy of all requests. It cannot be used with a Guard, because the proxy
	// would connect to the address. Nil uses the environment's proxies.
	Proxy *url.URL
	// Timeout limits the time from the connection to the end of the answer. Default: 10 s.
	Timeout time.Duration
	// sessions can be continued with the servers that saw the certificate.
	sessions tls.ClientSessionCache
}

// Request is one request.
type Request struct {
	// Method is POST by default.
	Method string
	URL    string
	// Header is sent in addition to the headers of every request. Without a Content-Type
	// the body is JSON.
	Header http.Header
	// Key is the Idempotency-Key. Empty: none.
	Key  string
	Body []byte
	// Classify changes the evaluation of the response if its body says more than its
	// status. Optional.
	Classify func(*Response)
}

// Response is the evaluation of a server's response, at first by its status only.
type Response struct {
	Status int
	// Body is the beginning of the body. It is untrusted and must not appear in Text.
	Body []byte
	// Accepted means that the server accepted the message.
	Accepted bool
	// Class and Text describe the failure otherwise. Text says what is wrong and what
	// to do.
	Class notify.Class
	Text  string
	// RetryAfter is how long the server asked the operator to wait.
	RetryAfter time.Duration
}

// Limits of connections, so that thousands of receivers do not hold thousands of them.
const (
	maxIdleConns        = 100
	maxIdleConnsPerHost = 2
	idleConnTimeout     = 30 * time.Second
	maxHeaderBytes      = 16 << 10
)

// Time limits of a request. A server that cannot be reached has no more time than these,
// however long the receiver may take to answer.
const (
	// connectTimeout limits the resolution of the name together with the connection.
	connectTimeout   = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	// defaultTimeout is the default of Config.Timeout.
	defaultTimeout = 10 * time.Second
)
