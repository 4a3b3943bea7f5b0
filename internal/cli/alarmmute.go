package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/mute"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// alarmChange holds the flags of the commands that change an alarm in the cluster.
type alarmChange struct {
	cluster   kube.Target
	namespace string
}

func (o *alarmChange) addFlags(c *cobra.Command) {
	addCluster(c, &o.cluster)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of an Alarm, instead of the namespace of the context")
}

// connect returns a client with the permissions of the user, and the alarm that the user named.
func (o *alarmChange) connect(name string, errOut io.Writer) (client.Client, mute.Target, error) {
	klog.SetLogger(logr.Discard()) // errors are printed below
	namespace := o.namespace
	if namespace == "" {
		var err error
		if namespace, err = o.cluster.Namespace(); err != nil {
			return nil, mute.Target{}, err
		}
	}
	target, err := mute.Parse(name, namespace)
	if err != nil {
		return nil, mute.Target{}, command.Usage(err)
	}
	cfg, err := o.cluster.Config()
	if err != nil {
		return nil, mute.Target{}, err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	c, err := kube.NewClient(cfg)
	return c, target, err
}

// notFound explains the error of a request for an alarm that does not exist.
func notFound(target mute.Target, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found: check the name and the namespace, or use ClusterAlarm/NAME for a ClusterAlarm", target)
	}
	return err
}

// change changes the alarm that the user named and returns it.
func (o *alarmChange) change(ctx context.Context, name string, errOut io.Writer, change func(*v1alpha1.AlarmSpec) error) (mute.Target, error) {
	c, target, err := o.connect(name, errOut)
	if err != nil {
		return mute.Target{}, err
	}
	err = mute.Change(ctx, c, target, func(o mute.Object) error { return change(o.AlarmSpec()) })
	return target, notFound(target, err)
}

func newAlarmMute() *cobra.Command {
	var o struct {
		alarmChange
		lasts, reason string
	}
	c := &cobra.Command{
		Use:   "mute NAME --for DURATION",
		Short: "Mute an alarm for a time",
		Long: `Mute an Alarm or a ClusterAlarm from now on, for a time. The mute ends by itself. The
operator counts the occurrences of this time in status.suppressedByMute, and does not
send them later. Messages that wait for delivery are still delivered, and so are messages
that resolve a group.

NAME names an Alarm. For a ClusterAlarm, use ClusterAlarm/NAME. The command sets muteFrom,
muteUntil and muteReason in the spec of the alarm, with your own permissions. If the alarm
is muted already, the new end replaces the old one, and so does the new reason if you give
one. The command refuses to replace a mute that begins later: unmute the alarm first.`,
		Example: `  bongsu alarm mute crashes -n shop --for 2h --reason "migration of the database"
  bongsu alarm mute ClusterAlarm/node-not-ready --for 30m`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.lasts == "" {
				return command.Usage(errors.New("the duration is missing: use --for DURATION, such as --for 2h"))
			}
			lasts, err := mute.ParseDuration(o.lasts)
			if err != nil {
				return command.Usage(fmt.Errorf("--for: %w", err))
			}
			now := clock.RealClock{}.Now()
			target, err := o.change(c.Context(), args[0], c.ErrOrStderr(), func(spec *v1alpha1.AlarmSpec) error {
				return mute.Set(spec, now, lasts, o.reason)
			})
			if err != nil {
				return err
			}
			until := target.Object.AlarmSpec().MuteUntil.UTC().Format(time.RFC3339)
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is muted until %s.\n", target, until)
			return err
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.lasts, "for", "", "`duration` of the mute, for example 30m, 2h, 1d or 1w")
	c.Flags().StringVar(&o.reason, "reason", "", "why the alarm is muted, at most 256 characters")
	return c
}

func newAlarmUnmute() *cobra.Command {
	var o alarmChange
	c := &cobra.Command{
		Use:   "unmute NAME",
		Short: "End the mute of an alarm",
		Long: `End the mute of an Alarm or a ClusterAlarm before its time. Occurrences during the mute
are not sent later. The recurring times in spec.mute still apply.

NAME names an Alarm. For a ClusterAlarm, use ClusterAlarm/NAME. The command sets muteUntil
to the present time, with your own permissions.`,
		Example: `  bongsu alarm unmute crashes -n shop
  bongsu alarm unmute ClusterAlarm/node-not-ready`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			now, ended := clock.RealClock{}.Now(), false
			target, err := o.change(c.Context(), args[0], c.ErrOrStderr(), func(spec *v1alpha1.AlarmSpec) error {
				ended = mute.End(spec, now)
				return nil
			})
			if err != nil {
				return err
			}
			if !ended {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s was not muted: nothing changed.\n", target)
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is no longer muted.\n", target)
			return err
		},
	}
	o.addFlags(c)
	return c
}
