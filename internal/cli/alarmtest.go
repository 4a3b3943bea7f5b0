package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/internal/alarm/trial"
	"github.com/bongsu-io/bongsu/internal/command"
)

// alarmTestOptions are the flags of `bongsu alarm test`.
type alarmTestOptions struct {
	alarmFile
	output   string
	old, new string
}

func newAlarmTest() *cobra.Command {
	o := alarmTestOptions{output: command.OutputTable}
	c := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Show which Events, states and changes alarms match, and which messages they would send",
		Long: `Show which Events of the cluster the Alarms and ClusterAlarms in a file match. Show
also their groups, the Events that a threshold or a mute holds back, and the text of
each message. The command sends no message and changes nothing.

First the command checks the alarms without the cluster. It names unknown fields, and
marks errors in expressions with a caret. Then it asks the API server in a dry run
whether it would accept the alarms. It checks that the receivers exist and allow the
alarms, that the kinds and resources exist, and that the operator may list them.
Receivers and Secrets in the file are used as if they were applied.

If no Event matches, the command lists near misses: Events that differ from the alarm
in only one condition. It also says if a namespaceSelector selects no namespace. The
API server deletes Events after one hour by default.

For an alarm with spec.states, the command shows for which objects of the cluster the
state is true now, and for how long at least.

For an alarm with spec.changes, give the command an object before and after a change,
with --old and --new. It then shows the message about this change, or the conditions
that are not met, and reads no Events. Without these files, it names the fields in which
no object has a value.
Each file can contain several objects. An object that only one file contains is created
or deleted; /dev/null is an empty file. Default values are not added, so use the output
of "kubectl get -o yaml" if an expression reads a field that your manifest leaves out.

The command reads with your own permissions. It reads the Events of an Alarm's
namespace, or all Events for a ClusterAlarm, and the objects that the alarms refer to.
It lists the objects that you may not read.

The test uses the times of the Events as its clock. The API server stores only the
count and the last time of an Event. So the test assumes that all its occurrences
happened at that time. It does not simulate the rate limits of receivers.

-o json and -o yaml print the list "alarms". Each alarm has the lists "matches" with
Events, "nearMisses", and "messages", whose field "message" is the body for a webhook.

The exit code is 1 if an alarm is invalid, or cannot work. An alarm cannot work if a
receiver does not exist, is not ready or does not allow it. The same applies if a
resource does not exist, or if you or the operator must not list it, and if a kind is
misspelt. An Alarm, or a namespaceSelector, cannot work with a kind without a namespace,
such as Node. A receiver in the file cannot work if its Secret or its spec is wrong.`,
		Example: `  bongsu alarm test -f alarm.yaml
  kubectl get alarm crashes -n shop -o yaml | bongsu alarm test -f - --from 10m
  bongsu alarm test -f alarm.yaml --from 2026-11-20T12:00:00Z --until 5m
  bongsu alarm test -f alarm.yaml --old before.yaml --new after.yaml
  bongsu alarm test -f alarm.yaml -o json | jq -r '.alarms[].messages[].message.title'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return command.Usage(err)
			}
			if err := command.CheckTable(o.output); err != nil {
				return command.Usage(err)
			}
			if (o.old == "") != (o.new == "") {
				return command.Usage(errors.New("--old and --new belong together: use /dev/null for the file without the object"))
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.old, "old", "", "`file` with objects before a change, to test spec.changes")
	c.Flags().StringVar(&o.new, "new", "", "`file` with objects after the change")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: table, json or yaml")
	command.CompleteFormats(c, command.OutputTable, command.OutputJSON, command.OutputYAML)
	return c
}

func (o *alarmTestOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	alarms, err := o.load(in, errOut)
	if err != nil {
		return err
	}
	env, err := o.environment(errOut)
	if err != nil {
		return err
	}
	if env.Comparison, err = o.comparison(); err != nil {
		return err
	}
	report, err := env.Test(ctx, alarms)
	if err != nil {
		return err
	}
	return errors.Join(command.PrintTable(out, o.output, report, trial.WriteText), report.Err())
}

// comparison reads the files of --old and --new. It returns nil without them.
func (o *alarmTestOptions) comparison() (*trial.Comparison, error) {
	if o.old == "" {
		return nil, nil
	}
	before, err := readObjects(o.old)
	if err != nil {
		return nil, err
	}
	after, err := readObjects(o.new)
	return &trial.Comparison{Old: before, New: after, Namespace: o.placed}, err
}

func readObjects(path string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	objects, err := trial.ReadObjects(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}
