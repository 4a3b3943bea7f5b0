package receiver

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/log"
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
	// versions identify the content of the Secrets that were read.
	versions []string
}
