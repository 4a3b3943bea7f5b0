package email

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Config configures the mail server, the sender and the recipients.
type Config struct {
	Host string
	// Port 0 means the usual port for TLS.
	Port int32
	TLS  v1alpha1.MailTLS
	From string
	To   []string
	// Username and Password are secrets. Without them, the Notifier does not log in.
	Username, Password string
	// HelloName is the operator's name in the greeting. If it is empty, the greeting has
	// the operator's address.
	HelloName string
	// Timeout limits each answer of the server, if it is shorter than the limits of SMTP.
	// 0 means these limits.
	Timeout time.Duration
	// Clock is for the time limits.
	Clock clock.PassiveClock
}

func (c *Config) address() string {
	port := c.Port
	if port == 0 {
		port = ports[c.TLS]
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(port)))
}

// ports are the usual ports for submission (RFC 8314) and for relays within a network.
var ports = map[v1alpha1.MailTLS]int32{v1alpha1.MailStartTLS: 587, v1alpha1.MailImplicitTLS: 465, v1alpha1.MailNoTLS: 25}

// Connector connects to the addresses that the receiver may use.
type Connector interface {
	Dial(ctx context.Context, address string) (net.Conn, error)
	TLSConfig(ctx context.Context, host string) *tls.Config
}

// Notifier sends through one mail server.
type Notifier struct {
	client Connector
	config Config
}

// mailBody is a mail without sender and recipients.
type mailBody struct {
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
	Date    time.Time `json:"date"`
	// Group is the key of the message's group, or empty.
	Group string `json:"group,omitempty"`
}
