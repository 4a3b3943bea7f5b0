// Package options contains the options of the operator, from its command line or a file.
// They are validated before anything starts.
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
	// Controllers are the names of the features that run: see package feature.
	Controllers []string
	// DataDir contains the outbox.
	DataDir string
	// LeaderElect makes the operator wait until no other replica leads.
	LeaderElect bool
	// Namespace contains the operator's own objects: Lease and checkpoint.
	Namespace string
	// ClusterName is the name in messages. If it is empty, the name is derived from the
	// cluster's UID.
	ClusterName string
	// MetricsAddress and HealthAddress are the addresses of the endpoints. "0" disables
	// them.
	MetricsAddress, HealthAddress string
	// AllowedAddresses are ranges that AlarmReceivers may use although they are not
	// public.
	AllowedAddresses []string
	// DeliveryMaxAge is the time after which an undelivered message is dropped.
	DeliveryMaxAge time.Duration
	// JupyterImage is the default image of Jupyters.
	JupyterImage string
	// AppServiceImage is the default image of AppServices.
	AppServiceImage string
}

// Default returns the default options.
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
	flags.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"`name` of the cluster in messages (default: derived from the cluster's UID)")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress,
		"`address` of the Prometheus endpoint, for example :8080; 0 is none")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress,
		"`address` of /healthz and /readyz, for example :8081; 0 is none")
	flags.StringSliceVar(&o.AllowedAddresses, "allowed-receiver-addresses", o.AllowedAddresses,
		"loopback, link-local or private `ranges` (CIDR) that AlarmReceivers may use")
	flags.DurationVar(&o.DeliveryMaxAge, "delivery-max-age", o.DeliveryMaxAge,
		"drop messages that are not delivered after this `duration`")
	flags.StringVar(&o.JupyterImage, "jupyter-image", o.JupyterImage,
		"default `image` of Jupyters")
	flags.StringVar(&o.AppServiceImage, "appservice-image", o.AppServiceImage,
		"default `image` of AppServices")
}

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

// Features parses Controllers.
func (o *Options) Features() ([]feature.Feature, error) {
	chosen, err := feature.Parse(o.Controllers)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	return chosen, nil
}

// AllowedPrefixes parses AllowedAddresses.
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
