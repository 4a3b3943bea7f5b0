package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/dryrun"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func newAlarm() *cobra.Command {
	c := &cobra.Command{
		Use:   "alarm",
		Short: "Test alarms before you apply them",
		Long: `Test alarms on the present Events of the cluster. Send a message that is marked as a
test.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newAlarmTest(), newAlarmSend())
	return c
}

// alarmFile holds the flags of the commands that read alarms from a file.
type alarmFile struct {
	file        string
	kubeconfig  string
	namespace   string
	clusterName string
	since       time.Duration
}

func (f *alarmFile) addFlags(c *cobra.Command) {
	flags := c.Flags()
	command.AddKubeconfig(flags, &f.kubeconfig)
	flags.StringVarP(&f.file, "file", "f", "", "`file` with the alarms, in YAML or JSON; - is standard input")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of Alarms without one, instead of the namespace of the context")
	flags.StringVar(&f.clusterName, "cluster-name", "", "`name` of the cluster in messages, as in the operator's --cluster-name (default: derived from the cluster's UID)")
	flags.DurationVar(&f.since, "since", time.Hour, "maximum age of Events")
	command.CompleteFlag(c, "file", cobra.FixedCompletions([]string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt))
}

func (f *alarmFile) validate() error {
	switch {
	case f.file == "":
		return errors.New("the file with the alarms is missing: use -f FILE, or -f - for standard input")
	case f.since <= 0:
		return fmt.Errorf("--since is %v: use a positive duration", f.since)
	}
	return nil
}

// load reads and compiles the alarms. It sends no requests to the cluster.
func (f *alarmFile) load(in io.Reader, errOut io.Writer) ([]*dryrun.Alarm, error) {
	name := "standard input"
	if f.file != "-" {
		name = f.file
		file, err := os.Open(f.file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // opened for reading only
		in = file
	}
	manifests, others, err := dryrun.Read(in)
	if err == nil {
		_, err = dryrun.Compile(manifests)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(others) > 0 {
		_, _ = fmt.Fprintf(errOut, "ignored, because it is not an alarm: %s\n", strings.Join(others, ", "))
	}
	namespace := f.namespace
	if namespace == "" {
		if namespace, err = kube.Namespace(f.kubeconfig); err != nil {
			return nil, err
		}
	}
	if err := dryrun.Place(manifests, namespace, f.namespace != ""); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return dryrun.Compile(manifests)
}

// environment returns the cluster with the permissions of the user.
func (f *alarmFile) environment(errOut io.Writer) (*dryrun.Environment, error) {
	klog.SetLogger(logr.Discard()) // errors are printed below
	cfg, err := kube.Config(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	c, err := kube.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return &dryrun.Environment{Client: c, ClusterName: f.clusterName, Now: clock.RealClock{}.Now(), Since: f.since}, nil
}
