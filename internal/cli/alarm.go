package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/trial"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

func newAlarm() *cobra.Command {
	c := &cobra.Command{
		Use:   "alarm",
		Short: "Test alarms before you apply them, mute them, and acknowledge their groups",
		Long: `Test alarms on the present Events of the cluster. Send a message that is marked as a
test. Mute an alarm for a time. Acknowledge open groups, so that they send no further
messages.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newAlarmTest(), newAlarmSend(), newAlarmMute(), newAlarmUnmute(),
		newAlarmGroups(), newAlarmAck(), newAlarmUnack())
	return c
}

// alarmFile holds the flags of the commands that read alarms from a file.
type alarmFile struct {
	file        string
	cluster     kube.Target
	namespace   string
	clusterName string
	operator    string
	from, until string
	// content is what the file contains, and placed is the namespace of objects without one. load
	// sets them.
	content trial.File
	placed  string
}

func (f *alarmFile) addFlags(c *cobra.Command) {
	flags := c.Flags()
	addCluster(c, &f.cluster)
	flags.StringVarP(&f.file, "file", "f", "", "`file` with the alarms, in YAML or JSON; - is standard input")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of Alarms without one, instead of the namespace of the context")
	flags.StringVar(&f.clusterName, "cluster-name", "", "`name` of the cluster in messages (default: the name that the operator uses)")
	flags.StringVar(&f.operator, "operator-namespace", options.Default().Namespace, "`namespace` of the operator, to find the name of the cluster")
	flags.StringVar(&f.from, "from", "1h", "`time` or age of the oldest Event to use, for example 2026-11-20T12:00:00Z or 30m")
	flags.StringVar(&f.until, "until", "0s", "`time` or age of the newest Event to use")
	command.CompleteFlag(c, "file", cobra.FixedCompletions([]string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt))
}

func (f *alarmFile) validate() error {
	if f.file == "" {
		return errors.New("the file with the alarms is missing: use -f FILE, or -f - for standard input")
	}
	_, _, err := f.period(clock.RealClock{}.Now())
	return err
}

// period returns the times of --from and --until.
func (f *alarmFile) period(now time.Time) (from, until time.Time, err error) {
	if from, err = moment(f.from, now); err != nil {
		return from, until, fmt.Errorf("--from: %w", err)
	}
	if until, err = moment(f.until, now); err != nil {
		return from, until, fmt.Errorf("--until: %w", err)
	}
	if !from.Before(until) {
		return from, until, fmt.Errorf("--from %s is not before --until %s: use an earlier time", f.from, f.until)
	}
	return from, until, nil
}

// moment parses a time, or a duration before now.
func moment(text string, now time.Time) (time.Time, error) {
	if age, err := time.ParseDuration(text); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.After(now) {
		return time.Time{}, fmt.Errorf("%q is neither an age nor a time in the past: use a form like 30m or 2026-11-20T12:00:00Z", text)
	}
	return at, nil
}

// load reads and compiles the alarms. It sends no requests to the cluster.
func (f *alarmFile) load(in io.Reader, errOut io.Writer) ([]*trial.Alarm, error) {
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
	read, err := trial.Read(in)
	if err == nil {
		_, err = trial.Compile(read.Alarms)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(read.Others) > 0 {
		_, _ = fmt.Fprintf(errOut, "note: of other kinds, and not used: %s\n", strings.Join(read.Others, ", "))
	}
	namespace := f.namespace
	if namespace == "" {
		if namespace, err = f.cluster.Namespace(); err != nil {
			return nil, err
		}
	}
	f.placed = namespace
	if err := read.Place(namespace, f.namespace != ""); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.content = read
	return trial.Compile(read.Alarms)
}

// environment returns the cluster with the permissions of the user.
func (f *alarmFile) environment(errOut io.Writer) (*trial.Environment, error) {
	cfg, err := f.cluster.Config()
	if err != nil {
		return nil, err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	c, err := kube.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	lister, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	env := &trial.Environment{
		Client: c, Discovery: lister, ClusterName: f.clusterName, OperatorNamespace: f.operator, InFile: f.content, Now: clock.RealClock{}.Now(),
	}
	env.From, env.Until, err = f.period(env.Now)
	return env, err
}
