package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/alarm/dryrun"
	"github.com/bongsu-io/bongsu/internal/command"
)

// alarmTestOptions are the flags of `bongsu alarm test`.
type alarmTestOptions struct {
	alarmFile
	output string
}

func newAlarmTest() *cobra.Command {
	o := alarmTestOptions{output: command.OutputTable}
	c := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Show which Events alarms match, and which messages they would send",
		Long: `Show which Events of the cluster the Alarms and ClusterAlarms in a file match. Show
also their groups, the Events that a threshold or a mute holds back, and the text of
each message. The command sends no message and changes nothing.

First the command checks the alarms without the cluster. It names unknown fields, and
marks errors in expressions with a caret. Then it asks the API server in a dry run
whether it would accept the alarms.

The command reads with your own permissions. It reads the Events of an Alarm's
namespace, or all Events for a ClusterAlarm, and the objects that the alarms refer to.
It lists the objects that you may not read.

The test uses the times of the Events as its clock. The API server stores only the
count and the last time of an Event. So the test assumes that all its occurrences
happened at that time. It does not simulate the rate limits of receivers.

-o json and -o yaml print the list "alarms". Each alarm has the lists "matches" with
Events, and "messages", whose field "message" is the body for a webhook.

The exit code is 1 if an alarm is invalid.`,
		Example: `  bongsu alarm test -f alarm.yaml
  kubectl get alarm crashes -n shop -o yaml | bongsu alarm test -f - --since 10m
  bongsu alarm test -f alarm.yaml -o json | jq -r '.alarms[].messages[].message.title'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return command.Usage(err)
			}
			if err := command.CheckTable(o.output); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
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
	report, err := env.Test(ctx, alarms)
	if err != nil {
		return err
	}
	return command.PrintTable(out, o.output, report, dryrun.WriteText)
}
