// Package options contains the options of the operator, from its command line or a file.
// They are validated before anything starts.
package options

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// Options of the operator.
type Options struct {
	// Controllers are the names of the features that run: see package feature.
	Controllers []string
	// DataDir contains the outbox.
	DataDir string
	// LeaderElect makes the operator wait until no other replica leads.
	LeaderElect bool
	// Namespace contains the operator's own objects: Lease and checkpoint.
	Namespace string
	// ProtectedNamespaces are the namespaces in which the operator writes only Events and
	// statuses.
	ProtectedNamespaces []string
	// ShareNamespaces are the namespaces of the sources and targets of shared Secrets. Empty means
	// all, for which the operator needs the permission to read and write all Secrets.
	ShareNamespaces []string
	// DefaultShare creates the ClusterSecretShare secretsync at the first start in a cluster.
	DefaultShare bool
	// ClusterName is the name in messages. If it is empty, the name is derived from the
	// cluster's UID.
	ClusterName string
	// MetricsAddress and HealthAddress are the addresses of the endpoints. "0" disables
	// them.
	MetricsAddress, HealthAddress string
	// MetricsSecure serves metrics over HTTPS, to users who can get /metrics.
	MetricsSecure bool
	// AllowedAddresses are ranges that AlarmReceivers may use although they are not
	// public, DeniedAddresses ranges that they may never use.
	AllowedAddresses, DeniedAddresses []string
	// AllowedHosts are the hosts that AlarmReceivers may use: names, addresses, or patterns
	// such as *.example.com. Empty: all.
	AllowedHosts []string
	// DeliveryMaxAge is the time after which an undelivered message is dropped.
	DeliveryMaxAge time.Duration
	// HeartbeatInterval is the time between two Events Heartbeat; 0 is none.
	HeartbeatInterval time.Duration
	// SMTPHelloName is the operator's name for mail servers. If it is empty, it is the
	// operator's address.
	SMTPHelloName string
	// OutboxMaxBytes is the largest size of the outbox's file.
	OutboxMaxBytes resource.QuantityValue
	// JupyterImage is the default image of Jupyters.
	JupyterImage string
	// AppServiceImage is the default image of AppServices.
	AppServiceImage string
}

// Default returns the default options.
func Default() Options {
	return Options{
		Controllers:         feature.Names(feature.Default()),
		DataDir:             "/var/lib/bongsu",
		Namespace:           "bongsu-system",
		ProtectedNamespaces: []string{metav1.NamespaceSystem},
		DefaultShare:        true,
		MetricsAddress:      "0",
		MetricsSecure:       true,
		HealthAddress:       "0",
		DeliveryMaxAge:      24 * time.Hour,
		OutboxMaxBytes:      resource.QuantityValue{Quantity: resource.MustParse("320Mi")},
		JupyterImage:        "quay.io/jupyter/minimal-notebook:2026-07-28",
		AppServiceImage:     "docker.io/library/memcached:1.6.39-alpine",
	}
}

// AddFlags adds a flag for each option. The current values are the defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"`features` that run; the operator needs only the permissions of these")
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"`directory` of the outbox: messages to send, and the position in the stream of Events")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"wait until no other replica leads; required for more than one replica")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"`namespace` of the operator's own objects (Lease, checkpoint)")
	flags.StringSliceVar(&o.ProtectedNamespaces, "protected-namespaces", o.ProtectedNamespaces,
		"`namespaces` in which the operator writes only Events and statuses; the admission policies must name the same")
	flags.StringSliceVar(&o.ShareNamespaces, "share-namespaces", o.ShareNamespaces,
		"`namespaces` of the sources and targets of shared Secrets (default: all)")
	flags.BoolVar(&o.DefaultShare, "default-share", o.DefaultShare,
		"create the ClusterSecretShare secretsync at the first start in a cluster")
	flags.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"`name` of the cluster in messages (default: derived from the cluster's UID)")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress,
		"`address` of the Prometheus endpoint, for example :8080; 0 is none")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", o.MetricsSecure,
		"serve metrics over HTTPS, to users who can get /metrics; otherwise over HTTP, to everyone")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress,
		"`address` of /healthz and /readyz, for example :8081; 0 is none")
	flags.StringSliceVar(&o.AllowedAddresses, "allowed-receiver-addresses", o.AllowedAddresses,
		"loopback, link-local or private `ranges` (CIDR) that AlarmReceivers may use")
	flags.StringSliceVar(&o.DeniedAddresses, "denied-receiver-addresses", o.DeniedAddresses,
		"`ranges` (CIDR) that AlarmReceivers may not use, whatever is allowed")
	flags.StringSliceVar(&o.AllowedHosts, "allowed-receiver-hosts", o.AllowedHosts,
		"the only `hosts` that AlarmReceivers may use, such as hooks.slack.com or *.example.com (default: all)")
	flags.DurationVar(&o.DeliveryMaxAge, "delivery-max-age", o.DeliveryMaxAge,
		"drop messages that are not delivered after this `duration`")
	flags.DurationVar(&o.HeartbeatInterval, "heartbeat-interval", o.HeartbeatInterval,
		"emit an Event Heartbeat in each `interval`, for an alarm that reports its absence elsewhere; 0 is never")
	flags.StringVar(&o.SMTPHelloName, "smtp-hello-name", o.SMTPHelloName,
		"`name` of the operator in the greeting of mail servers (EHLO), a host name such as bongsu.example.com (default: its IP address)")
	flags.Var(&o.OutboxMaxBytes, "outbox-max-bytes",
		"largest `size` of the outbox, for example 320Mi; the volume needs three times as much")
	flags.StringVar(&o.JupyterImage, "jupyter-image", o.JupyterImage,
		"default `image` of Jupyters")
	flags.StringVar(&o.AppServiceImage, "appservice-image", o.AppServiceImage,
		"default `image` of AppServices")
}

// minOutbox is the smallest outbox in which the counts of many Events have space, too.
var minOutbox = resource.MustParse("32Mi")

// Limits of the interval of heartbeats. The longest is shorter than [events.RepeatEvery], so that
// each has one name.
const (
	minHeartbeat = 30 * time.Second
	maxHeartbeat = 30 * time.Minute
)

// Validate returns an error that contains every invalid option with the name of its flag.
func (o *Options) Validate() error {
	var errs []error
	if _, err := o.Features(); err != nil {
		errs = append(errs, err)
	}
	if o.DataDir == "" {
		errs = append(errs, errors.New("--data-dir must not be empty"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace must not be empty"))
	}
	for _, namespace := range o.ProtectedNamespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			errs = append(errs, fmt.Errorf("--protected-namespaces: %q is not a namespace", namespace))
		}
	}
	for _, namespace := range o.ShareNamespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			errs = append(errs, fmt.Errorf("--share-namespaces: %q is not a namespace", namespace))
		}
	}
	if o.JupyterImage == "" {
		errs = append(errs, errors.New("--jupyter-image must not be empty"))
	}
	if o.AppServiceImage == "" {
		errs = append(errs, errors.New("--appservice-image must not be empty"))
	}
	if o.DeliveryMaxAge < time.Minute {
		errs = append(errs, fmt.Errorf("--delivery-max-age is %v; it must be at least 1m", o.DeliveryMaxAge))
	}
	if o.OutboxMaxBytes.Cmp(minOutbox) < 0 {
		errs = append(errs, fmt.Errorf("--outbox-max-bytes is %s; it must be at least %s", o.OutboxMaxBytes.String(), minOutbox.String()))
	}
	if len(validation.IsDNS1123Subdomain(strings.ToLower(o.SMTPHelloName))) > 0 && o.SMTPHelloName != "" {
		errs = append(errs, fmt.Errorf("--smtp-hello-name: %q is not a host name such as bongsu.example.com", o.SMTPHelloName))
	}
	_, err := o.Guard()
	return errors.Join(append(errs, err, o.checkHeartbeat())...)
}

func (o *Options) checkHeartbeat() error {
	if h := o.HeartbeatInterval; h != 0 && (h < minHeartbeat || h > maxHeartbeat) {
		return fmt.Errorf("--heartbeat-interval is %v; it must be 0, or from %v to %v", h, minHeartbeat, maxHeartbeat)
	}
	return nil
}

// Features parses Controllers.
func (o *Options) Features() ([]feature.Feature, error) {
	chosen, err := feature.Parse(o.Controllers)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	return chosen, nil
}

// Guard parses the options that limit AlarmReceivers.
func (o *Options) Guard() (dialguard.Config, error) {
	allowed, errAllowed := prefixes("--allowed-receiver-addresses", o.AllowedAddresses)
	denied, errDenied := prefixes("--denied-receiver-addresses", o.DeniedAddresses)
	err := errors.Join(errAllowed, errDenied, checkHosts(o.AllowedHosts))
	return dialguard.Config{Allowed: allowed, Denied: denied, Hosts: o.AllowedHosts}, err
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a range such as 10.20.0.0/16", flag, text)
		}
		all = append(all, prefix)
	}
	return all, nil
}

func checkHosts(hosts []string) error {
	for _, host := range hosts {
		_, err := netip.ParseAddr(host)
		name := strings.ToLower(strings.TrimSuffix(host, "."))
		if err != nil && validation.IsDNS1123Subdomain(name) != nil && validation.IsWildcardDNS1123Subdomain(name) != nil {
			return fmt.Errorf("--allowed-receiver-hosts: %q is not a host: use a name such as hooks.slack.com, *.example.com, or an address", host)
		}
	}
	return nil
}
