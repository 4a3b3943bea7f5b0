// Package demo shows alarms to somebody who sees them for the first time: on a
// local cluster with the operator in it, it applies the samples, makes happen what
// they wait for, one thing after the other, and looks whether each was told.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// defaultPatience is how long an alarm may take to be delivered.
const defaultPatience = time.Minute

// Cluster is where the demo happens.
type Cluster interface {
	// RESTConfig has every right.
	RESTConfig() *rest.Config
	// AddNode adds simulated nodes.
	AddNode(ctx context.Context, names ...string) error
}

// Config says how the demo goes.
type Config struct {
	// SlackWebhookURL, if set, gets the same alarms.
	SlackWebhookURL string
	// Out is where the demo says what it does; log receivers should write there too.
	Out io.Writer
	// Patience is how long each alarm may take. Default: a minute.
	Patience time.Duration
}

// MissingError says what did not arrive. At least one of its lists is not empty.
type MissingError struct {
	// Alarms that nothing was heard of in time.
	Alarms []string
	// Within is how long was waited.
	Within time.Duration
	// Receivers that are not Ready at the end, each with what its condition says:
	// an alarm was seen if any of its receivers took it.
	Receivers []string
}

func (e *MissingError) Error() string {
	var parts []string
	if len(e.Alarms) > 0 {
		parts = append(parts, fmt.Sprintf("not seen within %v: %s", e.Within, strings.Join(e.Alarms, ", ")))
	}
	return strings.Join(append(parts, e.Receivers...), "; ")
}

// Demo is one performance.
type Demo struct {
	config  Config
	cluster Cluster
	client  client.Client
	seen    watcher
}

// Run plays all acts. It returns a *MissingError if an alarm was not delivered in
// time after what should have raised it, or if a receiver fails at the end.
func Run(ctx context.Context, cluster Cluster, config Config) error {
	d, err := newDemo(cluster, config)
	if err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("prepare the demo: %w", err)
	}
	var missing []string
	for _, a := range acts {
		d.say("\n==> %s\n", a.title)
		if err := a.play(ctx, d); err != nil {
			return fmt.Errorf("demo: %s: %w", a.title, err)
		}
		late, err := d.seen.await(ctx, a.raises)
		if err != nil {
			return err
		}
		missing = append(missing, late...)
	}
	return d.conclude(ctx, missing)
}

// conclude says that all is well, or returns what is not.
func (d *Demo) conclude(ctx context.Context, missing []string) error {
	failing, err := d.seen.awaitReceivers(ctx, d.receiverNames())
	if err != nil {
		return err
	}
	if len(missing)+len(failing) > 0 {
		return &MissingError{Alarms: missing, Within: d.config.Patience, Receivers: failing}
	}
	d.say("\n==> Every kind of alarm was seen: %d of %d.\n", len(d.seen.baseline), len(d.seen.baseline))
	return nil
}

func newDemo(cluster Cluster, config Config) (*Demo, error) {
	if config.Patience == 0 {
		config.Patience = defaultPatience
	}
	c, err := newClient(cluster)
	if err != nil {
		return nil, err
	}
	return &Demo{config: config, cluster: cluster, client: c, seen: watcher{client: c, patience: config.Patience}}, nil
}

func newClient(cluster Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(cluster.RESTConfig(), client.Options{Scheme: scheme})
}

func (d *Demo) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.config.Out, format, args...)
}
