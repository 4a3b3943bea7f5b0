package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/alarm/dryrun"
)

// alarmTestOptions are the flags of `bongsu alarm test`.
type alarmTestOptions struct {
	alarmFile
	output string
}

func newAlarmTest() *cobra.Command {
	o := alarmTestOptions{output: outputTable}
	c := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Say which Events alarms match, and what they would send; nothing is sent",
		Long: `Say of the Alarms and ClusterAlarms in a file which of the cluster's Events they
match, how these are grouped, what a threshold or a mute holds back, and how each
message reads. Nothing is sent and nothing is written.

What is wrong with an alarm is said before the cluster is asked: of an expression with
a caret under the place, of a field that there is not by its name. Then the API server
is asked, by a dry run, whether it would take it.

It reads with your own rights: an Alarm's Events of its namespace, a ClusterAlarm's of
all, and what alarms ask of the objects. What you may not read it says.

The clock is when the Events occurred. The API server keeps of an Event only how often
it occurred so far and when it last did: that is taken for as many occurrences then.
What a receiver's rate limit puts together into a digest is not foreseen.

-o json and -o yaml print a list "alarms", each with "matches", the Events, and
"messages", whose "message" is what a webhook would get.

The exit code is 1 if an alarm is invalid, whatever it matches.`,
		Example: `  bongsu alarm test -f alarm.yaml
  kubectl get alarm crashes -n shop -o yaml | bongsu alarm test -f - --since 10m
  bongsu alarm test -f alarm.yaml -o json | jq -r '.alarms[].messages[].message.title'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usage(err)
			}
			if err := checkTable(o.output); err != nil {
				return usage(err)
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: table, json or yaml")
	completeFormats(c, outputTable, outputJSON, outputYAML)
	return c
}

func (o *alarmTestOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	alarms, err := o.load(in, errOut)
	if err != nil {
		return err
	}
	stage, err := o.stage(errOut)
	if err != nil {
		return err
	}
	report, err := stage.Test(ctx, alarms)
	if err != nil {
		return err
	}
	return printTable(out, o.output, report, dryrun.WriteText)
}
