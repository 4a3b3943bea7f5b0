package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/dryrun"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
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
		Short: "Send one message of an alarm to a receiver, marked as a test",
		Long: `Send one message of the alarm in a file to a receiver, marked "[Test]" in its title,
and say what is answered. The message is of the newest Event that the alarm matches, or,
if there is none, of one that is made up. Threshold, group and mute are left aside. It
comes from an alarm whose name ends in -test, so that the incidents of the alarm itself
are left alone.

It is sent from here, not by the operator, and with your own rights: you must be allowed
to get the receiver and the Secrets that it names. A receiver that this machine cannot
reach may be one that the operator can, and the other way round. A log receiver writes
here.

An AlarmReceiver is held to public addresses, as by the operator; tell which ranges your
operator allows besides with the flag that tells it.`,
		Example: `  bongsu alarm send -f alarm.yaml --to ops
  bongsu alarm send -f alarm.yaml --to ClusterAlarmReceiver/ops -n shop`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usage(err)
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.to, "to", "", "`receiver`: NAME, AlarmReceiver/NAME or ClusterAlarmReceiver/NAME")
	c.Flags().StringSliceVar(&o.allowed, "allowed-receiver-addresses", nil,
		"`ranges` (CIDR) that AlarmReceivers may reach though they are loopback, link-local or private")
	completeFlag(c, "to", o.completeReceivers)
	return c
}

func (o *alarmSendOptions) validate() error {
	if o.to == "" {
		return errors.New("give the receiver: --to NAME")
	}
	return o.alarmFile.validate()
}

func (o *alarmSendOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	flags := options.Options{AllowedAddresses: o.allowed}
	allowed, err := flags.AllowedPrefixes()
	if err != nil {
		return usage(err)
	}
	alarms, err := o.load(in, errOut)
	if err != nil {
		return err
	}
	if len(alarms) != 1 {
		return fmt.Errorf("%s holds %d alarms: give one with the alarm alone that is to be tried", o.file, len(alarms))
	}
	to, err := alarms[0].Receiver(o.to)
	if err != nil {
		return usage(fmt.Errorf("--to: %w", err))
	}
	stage, err := o.stage(errOut)
	if err != nil {
		return err
	}
	sent, err := stage.Send(ctx, alarms[0], to, receiver.NewSinks(allowed, out, clock.RealClock{}))
	if err != nil {
		return err
	}
	return tellSent(sent, out, errOut)
}

func tellSent(sent *dryrun.Sent, out, errOut io.Writer) error {
	for _, note := range sent.Notes {
		_, _ = fmt.Fprintf(errOut, "note: %s\n", plaintext.Line(note))
	}
	about := "the newest Event that matches"
	if sent.Example {
		about = "a made-up Event, for none matches"
	}
	_, err := fmt.Fprintf(out, "%s accepted the message %q, of %s.\n", sent.Receiver, sent.Message.Title, about)
	return err
}

// completeReceivers offers the receivers that there are, by KIND/NAME.
func (o *alarmSendOptions) completeReceivers(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	stage, err := o.stage(io.Discard)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace := o.namespace
	if namespace == "" {
		namespace, _ = kube.Namespace(o.kubeconfig)
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	return stage.Receivers(ctx, namespace), cobra.ShellCompDirectiveNoFileComp
}
