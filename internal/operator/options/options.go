// Package options holds what the operator can be told on its command line or in
// a file: one struct, validated as a whole before anything starts.
package options

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// Options of the operator.
type Options struct {
	// Controllers names the capabilities that run: see package capability.
	Controllers []string
	// DataDir contains the outbox.
	DataDir string
	// LeaderElect makes the operator wait until no other is at work.
	LeaderElect bool
	// Namespace contains the operator's own objects: Lease and checkpoint.
	Namespace string
	// ClusterName is told in each message; empty is derived from the cluster's UID.
	ClusterName string
	// MetricsAddress and HealthAddress are where those endpoints listen; "0" is
	// nowhere.
	MetricsAddress, HealthAddress string
	// AllowedAddresses are ranges that receivers of a namespace may reach though
	// they are not public.
	AllowedAddresses []string
	// DeliveryMaxAge is how long delivery of a message is tried.
	DeliveryMaxAge time.Duration
	// JupyterImage is the image of Jupyters that name none.
	JupyterImage string
	// AppServiceImage is the image of AppServices that name none.
	AppServiceImage string
}

// Default returns the options of an installation that says nothing.
func Default() Options {
	return Options{
		Controllers:     feature.Names(feature.All()),
		DataDir:         "/var/lib/bongsu",
		Namespace:       "bongsu-system",
		MetricsAddress:  "0",
		HealthAddress:   "0",
		DeliveryMaxAge:  24 * time.Hour,
		JupyterImage:    "quay.io/jupyter/minimal-notebook:2026-07-28",
		AppServiceImage: "docker.io/library/memcached:1.6.39-alpine",
	}
}

// AddFlags adds a flag for each option; the present values are the defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"`capabilities` that run; the operator then needs the rights of these alone")
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"`directory` of the outbox: messages to send, and the position in the stream of Events")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"wait until no other replica is at work; needed with more than one")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"`namespace` of the operator's own objects (Lease, checkpoint)")
	flags.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"`name` of the cluster in messages (default: derived from the cluster's UID)")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress,
		"`address` of the Prometheus endpoint, for example :8080; 0 is none")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress,
		"`address` of /healthz and /readyz, for example :8081; 0 is none")
	flags.StringSliceVar(&o.AllowedAddresses, "allowed-receiver-addresses", o.AllowedAddresses,
		"`ranges` (CIDR) that AlarmReceivers may reach though they are loopback, link-local or private")
	flags.DurationVar(&o.DeliveryMaxAge, "delivery-max-age", o.DeliveryMaxAge,
		"how long delivery of a message is tried before it is dropped")
	flags.StringVar(&o.JupyterImage, "jupyter-image", o.JupyterImage,
		"`image` of Jupyters that name none")
	flags.StringVar(&o.AppServiceImage, "appservice-image", o.AppServiceImage,
		"`image` of AppServices that name none")
}

// Validate returns all that is wrong, each naming its flag.
func (o *Options) Validate() error {
	var errs []error
	if _, err := o.Capabilities(); err != nil {
		errs = append(errs, err)
	}
	if o.DataDir == "" {
		errs = append(errs, errors.New("--data-dir must not be empty"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace must not be empty"))
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
	if _, err := o.AllowedPrefixes(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Capabilities returns Controllers parsed.
func (o *Options) Capabilities() ([]feature.Feature, error) {
	chosen, err := feature.Parse(o.Controllers)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	return chosen, nil
}

// AllowedPrefixes returns AllowedAddresses parsed.
func (o *Options) AllowedPrefixes() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range o.AllowedAddresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--allowed-receiver-addresses: %q is not a range such as 10.20.0.0/16", text)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
