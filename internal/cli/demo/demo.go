// Package demo demonstrates alarms to new users. It applies the sample alarms to a local
// cluster with a running operator, and triggers them one after the other. It checks that
// each alarm is delivered. It deletes and recreates the namespaces shop and team-a, so it
// must not run on a cluster with other workloads.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// defaultTimeout limits the delivery of one alarm.
const defaultTimeout = time.Minute

// Cluster is the cluster on which the demo runs.
type Cluster interface {
	// RESTConfig returns the configuration of a cluster administrator.
	RESTConfig() *rest.Config
	// AddNode adds simulated nodes.
	AddNode(ctx context.Context, names ...string) error
}

// Config configures the demo.
type Config struct {
	// SlackWebhookURL receives the same alarms if it is set.
	SlackWebhookURL string
	// Out receives the progress of the demo. Log receivers should write there too.
	Out io.Writer
	// Timeout limits the delivery of each alarm. The default is one minute.
	Timeout time.Duration
}

// MissingError lists alarms and receivers that failed. At least one of its lists is not
// empty.
type MissingError struct {
	// Alarms that were not delivered within Within.
	Alarms []string
	Within time.Duration
	// Receivers that are not Ready at the end, with the messages of their conditions. An
	// alarm counts as delivered if one of its receivers accepted it.
	Receivers []string
}

func (e *MissingError) Error() string {
	var parts []string
	if len(e.Alarms) > 0 {
		parts = append(parts, fmt.Sprintf("not seen within %v: %s", e.Within, strings.Join(e.Alarms, ", ")))
	}
	return strings.Join(append(parts, e.Receivers...), "; ")
}

// Demo is one run of the demo.
type Demo struct {
	config  Config
	cluster Cluster
	client  client.Client
	seen    watcher
}

// Run runs all steps. It returns a *MissingError if an alarm is not delivered in time, or
// if a receiver is not Ready at the end.
func Run(ctx context.Context, cluster Cluster, config Config) error {
	d, err := newDemo(cluster, config)
	if err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("prepare the demo: %w", err)
	}
	var missing []string
	for _, s := range steps {
		d.printf("\n==> %s\n", s.title)
		if err := s.run(ctx, d); err != nil {
			return fmt.Errorf("demo: %s: %w", s.title, err)
		}
		late, err := d.seen.await(ctx, s.raises)
		if err != nil {
			return err
		}
		missing = append(missing, late...)
	}
	return d.conclude(ctx, missing)
}

// conclude prints that the demo succeeded, or returns what is missing.
func (d *Demo) conclude(ctx context.Context, missing []string) error {
	failing, err := d.seen.awaitReceivers(ctx, d.receiverNames())
	if err != nil {
		return err
	}
	if len(missing)+len(failing) > 0 {
		return &MissingError{Alarms: missing, Within: d.config.Timeout, Receivers: failing}
	}
	d.printf("\n==> Every kind of alarm was seen: %d of %d.\n", len(d.seen.baseline), len(d.seen.baseline))
	return nil
}

func newDemo(cluster Cluster, config Config) (*Demo, error) {
	if config.Timeout == 0 {
		config.Timeout = defaultTimeout
	}
	c, err := newClient(cluster)
	if err != nil {
		return nil, err
	}
	return &Demo{config: config, cluster: cluster, client: c, seen: watcher{client: c, timeout: config.Timeout}}, nil
}

func newClient(cluster Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(cluster.RESTConfig(), client.Options{Scheme: scheme})
}

func (d *Demo) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(d.config.Out, format, args...)
}

// ShowOptions configures what Show does after the demo.
type ShowOptions struct {
	// Exit makes Show return at once, for example in a test.
	Exit bool
	// Kubectl and Kubeconfig are the paths in the suggested commands.
	Kubectl, Kubeconfig string
}

// errStopped reports that the demo was stopped before its end.
var errStopped = errors.New("stopped before every kind of alarm was seen")

// Show runs the demo. Unless options.Exit is set, it then prints commands to try, and
// waits until the context ends.
func Show(ctx context.Context, cluster Cluster, config Config, options ShowOptions) error {
	err := Run(ctx, cluster, config)
	if options.Exit {
		if ctx.Err() != nil {
			return errStopped
		}
		return err
	}
	missing, ok := errors.AsType[*MissingError](err)
	if err != nil && !ok {
		return err
	}
	if ok {
		_, _ = fmt.Fprintf(config.Out, "\n==> Not every alarm arrived: %v\n", missing)
	}
	_, _ = io.WriteString(config.Out, Suggest(options))
	<-ctx.Done()
	return nil
}

// commands are suggestions: arguments of kubectl and their effects.
var commands = []struct{ arguments, effect string }{
	{"get clusteralarms,alarms -A", "lists the alarms and their counters"},
	{"scale deployment web -n shop --replicas=5", "starts containers"},
	{"annotate node spot-2 " + localcluster.Simulate + "-", "makes the node Ready again"},
	{"delete pod payments -n shop", "ends the crashes"},
	{`patch clusteralarm container-created --type=merge -p '{"spec":{"suspend":true}}'`, "suspends an alarm"},
	{"patch clusteralarm crash --type=json -p '" + invalidExpression + "'", "introduces a mistake"},
	{"describe clusteralarm crash", "shows the mistake as a condition and an Event"},
}

// invalidExpression is a JSON patch with an expression that does not compile.
const invalidExpression = `[{"op":"add","path":"/spec/match/0/expression","value":"event.cuont > 3"}]`

// Suggest returns commands to try, as lines for a shell.
func Suggest(a ShowOptions) string {
	var b strings.Builder
	b.WriteString("\n==> All of this keeps running until you press Ctrl-C. In another terminal, try:\n\n")
	fmt.Fprintf(&b, "    export KUBECONFIG=%s\n", a.Kubeconfig)
	kubectl := relativePath(a.Kubectl)
	for _, c := range commands {
		fmt.Fprintf(&b, "    %s %s   # %s\n", kubectl, c.arguments, c.effect)
	}
	b.WriteString("\n")
	return b.String()
}

// relativePath returns a path below the working directory in its relative form.
func relativePath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}
