package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/ack"
	"github.com/bongsu-io/bongsu/internal/cli/mute"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// alarmGroup holds the flags of the commands that select groups of an alarm.
type alarmGroup struct {
	alarmChange
	ack.Selection
}

func (o *alarmGroup) addFlags(c *cobra.Command) {
	o.alarmChange.addFlags(c)
	c.Flags().StringVar(&o.Group, "group", "", "name or `key` of the group, or the first 6 characters of the key or more")
	c.Flags().BoolVar(&o.All, "all", false, "all groups that the alarm lists")
	command.CompleteFlag(c, "group", func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, target, err := o.connect(args[0], io.Discard)
		if err == nil {
			err = api.Get(c.Context(), client.ObjectKeyFromObject(target.Object), target.Object)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		open := target.Object.AlarmStatus().OpenGroups
		for i := range open {
			names = append(names, ack.Name(&open[i]))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

func (o *alarmGroup) validate() error {
	if o.All && o.Group != "" {
		return command.Usage(errors.New("--group and --all: use one of them"))
	}
	return nil
}

func newAlarmAck() *cobra.Command {
	var o struct {
		alarmGroup
		comment string
	}
	c := &cobra.Command{
		Use:   "ack NAME [--group GROUP | --all]",
		Short: "Acknowledge an open group of an alarm",
		Long: `Acknowledge an open group of an Alarm or a ClusterAlarm. The group sends no further
messages until it is resolved. Its occurrences are counted, and the message that resolves it
is sent. A group that begins again later is not acknowledged.

NAME names an Alarm. For a ClusterAlarm, use ClusterAlarm/NAME. If only one group is open and
not acknowledged, you need not name it. The command adds your user name to
spec.acknowledgements of the alarm, with your own permissions. Slack bots show the user name
in the thread, and PagerDuty acknowledges the incident.

A new group appears in the status of the alarm some seconds after its message: the command
waits up to ten seconds for it.`,
		Example: `  bongsu alarm ack crashes -n shop
  bongsu alarm ack crashes -n shop --group Pod/shop/web-0 --comment "rolling back"
  bongsu alarm ack ClusterAlarm/node-not-ready --all`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			api, target, err := o.connect(args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			user, err := ack.UserName(c.Context(), api)
			if err != nil {
				return err
			}
			var added []v1alpha1.AlarmOpenGroup
			err = untilListed(c.Context(), c.ErrOrStderr(), func(ctx context.Context) error {
				return mute.Change(ctx, api, target, func(object mute.Object) (err error) {
					added, err = ack.Add(object.AlarmSpec(), object.AlarmStatus(), o.Selection, user, o.comment, clock.RealClock{}.Now())
					return err
				})
			})
			if err != nil {
				return notFound(target, err)
			}
			if len(added) == 0 {
				advice := ""
				if o.comment != "" {
					advice = " To replace the comment, end the acknowledgement with unack first."
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s: acknowledged before, nothing changed.%s\n", target, advice)
				return err
			}
			return printGroups(c.OutOrStdout(), target, added, "is acknowledged by "+user)
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.comment, "comment", "", "text for the others, at most 256 characters")
	return c
}

// The operator writes the status of an alarm about five seconds after a message.
const (
	statusDelay = 10 * time.Second
	statusPoll  = 500 * time.Millisecond
)

// untilListed repeats an acknowledgement while the status of the alarm does not list the group, for as
// long as the status can be late.
func untilListed(ctx context.Context, errOut io.Writer, acknowledge func(context.Context) error) error {
	last, first := error(nil), true
	err := wait.PollUntilContextTimeout(ctx, statusPoll, statusDelay, true, func(ctx context.Context) (bool, error) {
		err := acknowledge(ctx)
		if !errors.Is(err, ack.ErrNotListed) {
			return true, err
		}
		if first {
			_, _ = fmt.Fprintln(errOut, "the status of the alarm does not list the group: waiting, because it can be some seconds late")
		}
		last, first = err, false
		return false, nil
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return last
	}
	return err
}

func printGroups(out io.Writer, target mute.Target, groups []v1alpha1.AlarmOpenGroup, what string) error {
	var errs []error
	for i := range groups {
		_, err := fmt.Fprintf(out, "%s: the group %s %s.\n", target, ack.Name(&groups[i]), what)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func newAlarmUnack() *cobra.Command {
	var o alarmGroup
	c := &cobra.Command{
		Use:   "unack NAME [--group GROUP | --all]",
		Short: "End the acknowledgement of a group",
		Long: `End the acknowledgement of an open group of an Alarm or a ClusterAlarm. The next occurrence
of the group sends a message again. Earlier ones are not sent.

NAME names an Alarm. For a ClusterAlarm, use ClusterAlarm/NAME. The command removes the entry
of the group from spec.acknowledgements, with your own permissions.`,
		Example: `  bongsu alarm unack crashes -n shop --group Pod/shop/web-0
  bongsu alarm unack ClusterAlarm/node-not-ready --all`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			api, target, err := o.connect(args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			var removed []v1alpha1.AlarmOpenGroup
			err = mute.Change(c.Context(), api, target, func(object mute.Object) (err error) {
				removed, err = ack.Remove(object.AlarmSpec(), object.AlarmStatus(), o.Selection)
				return err
			})
			if err != nil {
				return notFound(target, err)
			}
			if len(removed) == 0 {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s: no group was acknowledged, nothing changed.\n", target)
				return err
			}
			return printGroups(c.OutOrStdout(), target, removed, "is no longer acknowledged")
		},
	}
	o.addFlags(c)
	return c
}

func newAlarmGroups() *cobra.Command {
	var o alarmChange
	c := &cobra.Command{
		Use:   "groups NAME",
		Short: "List the open groups of an alarm",
		Long: `List the open groups of an Alarm or a ClusterAlarm: when each began, how often it occurred,
and who acknowledged it. The list has at most 32 groups, first those that are acknowledged,
then those that occurred last. It is at most some seconds old.

NAME names an Alarm. For a ClusterAlarm, use ClusterAlarm/NAME.`,
		Example: `  bongsu alarm groups crashes -n shop
  bongsu alarm groups ClusterAlarm/node-not-ready`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, target, err := o.connect(args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := api.Get(c.Context(), client.ObjectKeyFromObject(target.Object), target.Object); err != nil {
				return notFound(target, err)
			}
			return listGroups(c.OutOrStdout(), target)
		},
	}
	o.addFlags(c)
	return c
}

// listGroups prints the groups in the status of an alarm.
func listGroups(out io.Writer, target mute.Target) error {
	status, acknowledged := target.Object.AlarmStatus(), target.Object.AlarmSpec().Acknowledgements
	if len(status.OpenGroups) == 0 {
		_, err := fmt.Fprintf(out, "%s has no open groups.\n", target)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	_, err := fmt.Fprintln(w, "GROUP\tKEY\tSINCE\tOCCURRENCES\tACKNOWLEDGED-BY\tCOMMENT")
	errs := []error{err}
	for i := range status.OpenGroups {
		g := &status.OpenGroups[i]
		comment := ""
		if j := slices.IndexFunc(acknowledged, func(a v1alpha1.AlarmAcknowledgement) bool { return a.Group == g.Key }); j >= 0 && g.AcknowledgedBy != "" {
			comment = plaintext.Line(acknowledged[j].Comment)
		}
		// A tabwriter aligns only columns that all rows have.
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", ack.Name(g), g.Key[:min(len(g.Key), keyWidth)], g.Since.UTC().Format(time.RFC3339),
			g.Occurrences, cmp.Or(plaintext.Line(g.AcknowledgedBy), "-"), cmp.Or(comment, "-"))
		errs = append(errs, err)
	}
	errs = append(errs, w.Flush())
	if more := status.OpenGroupCount - int64(len(status.OpenGroups)); more > 0 {
		_, err := fmt.Fprintf(out, "%d more groups are open.\n", more)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keyWidth is the number of characters of a key in the list.
const keyWidth = 12
