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
	"github.com/bongsu-io/bongsu/internal/kube"
)

func newAlarm() *cobra.Command {
	c := &cobra.Command{
		Use:   "alarm",
		Short: "Try alarms out before they are applied",
		Long: `Try alarms out on the Events that the cluster has now, and send a message that is marked
as a test.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newAlarmTest(), newAlarmSend())
	return c
}

// alarmFile are the flags of what reads alarms from a file and tries them out.
type alarmFile struct {
	file        string
	kubeconfig  string
	namespace   string
	clusterName string
	since       time.Duration
}

func (f *alarmFile) addFlags(c *cobra.Command) {
	flags := c.Flags()
	addKubeconfig(flags, &f.kubeconfig)
	flags.StringVarP(&f.file, "file", "f", "", "`file` with the alarms, in YAML or JSON; - is standard input")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of Alarms that name none, instead of the context's own")
	flags.StringVar(&f.clusterName, "cluster-name", "", "`name` of the cluster in messages, as the operator is told it (default: derived from the cluster's UID)")
	flags.DurationVar(&f.since, "since", time.Hour, "how old Events may be")
	completeFlag(c, "file", cobra.FixedCompletions([]string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt))
}

func (f *alarmFile) validate() error {
	switch {
	case f.file == "":
		return errors.New("give the file with the alarms: -f FILE, or -f - for standard input")
	case f.since <= 0:
		return fmt.Errorf("--since is %v; it must be positive", f.since)
	}
	return nil
}

// load reads the alarms and compiles them, before anything is asked of a cluster.
func (f *alarmFile) load(in io.Reader, errOut io.Writer) ([]*dryrun.Alarm, error) {
	name := "standard input"
	if f.file != "-" {
		name = f.file
		file, err := os.Open(f.file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it is only read
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
		_, _ = fmt.Fprintf(errOut, "left out, for it is no alarm: %s\n", strings.Join(others, ", "))
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

// stage is the cluster, as whoever calls may see it.
func (f *alarmFile) stage(errOut io.Writer) (*dryrun.Environment, error) {
	klog.SetLogger(logr.Discard()) // what users need to know is told below
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
