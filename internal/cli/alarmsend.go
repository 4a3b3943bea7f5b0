package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/alarm/trial"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// alarmSendOptions are the flags of `bongsu alarm send`.
type alarmSendOptions struct {
	alarmFile
	to      string
	allowed []string
}

func newAlarmSend() *cobra.Command {
	var o alarmSendOptions
	c := &cobra.Command{
		Use:   "send -f FILE --to RECEIVER",
		Short: "Send a test message of an alarm to a receiver",
		Long: `Send one message of the alarm in a file to a receiver, and print the result. The title
of the message starts with "[Test]". The message is about the newest Event that the
alarm matches. If no Event matches, it is about an example Event. The command ignores
threshold, group and mute. The name of the alarm in the message ends in -test, so that
the message does not change incidents of the alarm itself.

The command sends the message itself, with your own permissions. You must be allowed to
get the receiver and the Secrets that it refers to. Network policies and proxies may
differ between your machine and the operator. A log receiver writes to standard output.

An AlarmReceiver may only use public addresses, as in the operator. If your operator
allows more ranges, repeat them in --allowed-receiver-addresses. The operator also denies
the addresses of Nodes and pods, and what its administrator denies.`,
		Example: `  bongsu alarm send -f alarm.yaml --to ops
  bongsu alarm send -f alarm.yaml --to ClusterAlarmReceiver/ops -n shop`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.to, "to", "", "`receiver`: NAME, AlarmReceiver/NAME or ClusterAlarmReceiver/NAME")
	c.Flags().StringSliceVar(&o.allowed, "allowed-receiver-addresses", nil,
		"loopback, link-local or private `ranges` (CIDR) that AlarmReceivers may reach")
	command.CompleteFlag(c, "to", o.completeReceivers)
	return c
}

func (o *alarmSendOptions) validate() error {
	if o.to == "" {
		return errors.New("the receiver is missing: use --to NAME")
	}
	return o.alarmFile.validate()
}

func (o *alarmSendOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	flags := options.Options{AllowedAddresses: o.allowed}
	guarded, err := flags.Guard()
	if err != nil {
		return command.Usage(err)
	}
	alarms, err := o.load(in, errOut)
	if err != nil {
		return err
	}
	if len(alarms) != 1 {
		return fmt.Errorf("%s contains %d alarms: use a file with one alarm", o.file, len(alarms))
	}
	to, err := alarms[0].Receiver(o.to)
	if err != nil {
		return command.Usage(fmt.Errorf("--to: %w", err))
	}
	env, err := o.environment(errOut)
	if err != nil {
		return err
	}
	sent, err := env.Send(ctx, alarms[0], to, receiver.NewSinks(guarded, out, clock.RealClock{}))
	if err != nil {
		return err
	}
	return printSent(sent, out, errOut)
}

func printSent(sent *trial.Sent, out, errOut io.Writer) error {
	for _, note := range sent.Notes {
		_, _ = fmt.Fprintf(errOut, "note: %s\n", plaintext.Line(note))
	}
	about := "the newest Event that matches"
	if sent.Example {
		about = "an example Event, because no Event matches"
	}
	_, err := fmt.Fprintf(out, "%s accepted the message %q, of %s.\n", sent.Receiver, sent.Message.Title, about)
	return err
}

// completeReceivers completes the existing receivers as KIND/NAME.
func (o *alarmSendOptions) completeReceivers(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	env, err := o.environment(io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace := o.namespace
	if namespace == "" {
		namespace, _ = o.cluster.Namespace()
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	return env.Receivers(ctx, namespace), cobra.ShellCompDirectiveNoFileComp
}
