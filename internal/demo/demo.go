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

// MissingError names the alarms that nothing was heard of in time.
type MissingError struct {
	Alarms []string
	// Within is how long was waited.
	Within time.Duration
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("not seen within %v: %s", e.Within, strings.Join(e.Alarms, ", "))
}

// Demo is one performance.
type Demo struct {
	config  Config
	cluster Cluster
	client  client.Client
	seen    watcher
}

// Run plays all acts. It returns a *MissingError if an alarm was not delivered in
// time after what should have raised it.
func Run(ctx context.Context, cluster Cluster, config Config) error {
	if config.Patience == 0 {
		config.Patience = defaultPatience
	}
	c, err := newClient(cluster)
	if err != nil {
		return err
	}
	d := &Demo{config: config, cluster: cluster, client: c, seen: watcher{client: c, patience: config.Patience}}
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
	if len(missing) > 0 {
		return &MissingError{Alarms: missing, Within: config.Patience}
	}
	d.say("\n==> Every kind of alarm was seen: %d of %d.\n", len(d.seen.baseline), len(d.seen.baseline))
	return nil
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
