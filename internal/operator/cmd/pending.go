package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pending"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// pendingFlags are the flags of `bongsu-operator pending`.
type pendingFlags struct {
	dataDir    string
	receivers  []string
	limit      int
	output     string
	kubeconfig string
	namespace  string
}

func newPending() *cobra.Command {
	o := pendingFlags{
		dataDir: options.Default().DataDir, namespace: options.Default().Namespace, limit: 100, output: command.OutputTable,
	}
	c := &cobra.Command{
		Use:   "pending",
		Short: "List messages that wait to be sent, and the entries of past digests",
		Long: `List the messages that wait to be sent, by receiver. List also the entries of digests of
the last 24 hours, the newest 1,000 of each receiver. For a message that the receiver did
not accept, LAST-ERROR shows why, and NEXT-ATTEMPT when the operator tries again, or now.

The command reads the outbox of an operator from the operator's --data-dir, while the
operator runs, and changes nothing. The directory is /var/lib/bongsu in the operator's
pod. For bongsu local and make run it is .bongsu/data, or data in the directory of
--dir.

Only the outbox of the leading replica is up to date. If the command can reach the
cluster, it checks whether this outbox is the leader's.`,
		Example: `  kubectl -n bongsu-system exec deploy/bongsu -- /bongsu-operator pending
  bongsu-operator pending --data-dir .bongsu/data --receiver ops
  bongsu-operator pending --limit 0 -o json | jq -r '.receivers[].digested[].message.text'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	command.AddKubeconfig(flags, &o.kubeconfig)
	flags.StringVar(&o.dataDir, "data-dir", o.dataDir, "`directory` of the operator's outbox")
	flags.StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	flags.StringSliceVar(&o.receivers, "receiver", nil, "only these `receivers`: NAME, KIND/NAME or KIND/NAMESPACE/NAME")
	flags.IntVar(&o.limit, "limit", o.limit, "`number` of entries to list of each receiver; 0 is all")
	flags.StringVarP(&o.output, "output", "o", o.output, "`format`: table, json or yaml")
	command.CompleteFormats(c, command.OutputTable, command.OutputJSON, command.OutputYAML)
	command.CompleteFlag(c, "receiver", o.completeReceivers)
	command.CompleteFlag(c, "data-dir", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return c
}

func (o *pendingFlags) validate() error {
	if o.limit < 0 {
		return fmt.Errorf("--limit is %d; it must not be negative", o.limit)
	}
	return command.CheckTable(o.output)
}

func (o *pendingFlags) run(ctx context.Context, out io.Writer) error {
	command.DiscardLogs()
	report, state, err := pending.Read(ctx, o.dataDir, o.limit, o.wanted)
	if err != nil {
		return err
	}
	o.findLeader(ctx, report, state)
	return command.PrintTable(out, o.output, report, func(out io.Writer, r *pending.Report) error {
		return pending.WriteText(out, r, clock.RealClock{}.Now())
	})
}

// leaderTimeout is the time limit of findLeader.
const leaderTimeout = 3 * time.Second

// findLeader asks the cluster whether the outbox belongs to the leader. It waits only
// shortly, because the answer is optional.
func (o *pendingFlags) findLeader(ctx context.Context, report *pending.Report, state outbox.State) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	cfg, err := kube.Config(o.kubeconfig)
	if err == nil {
		var c client.Client
		if c, err = kube.NewClient(cfg); err == nil {
			err = report.FindLeader(ctx, c, client.ObjectKey{Namespace: o.namespace, Name: options.LeaseName}, state)
		}
	}
	if err != nil {
		report.Note = fmt.Sprintf("unknown whether this outbox belongs to the leader: %v", err)
	}
}

// wanted reports whether a receiver is one of --receiver.
func (o *pendingFlags) wanted(receiver string) bool {
	receiver = alarm.ReceiverKey(receiver)
	key, err := kube.ParseKey(receiver)
	if len(o.receivers) == 0 || err != nil {
		return len(o.receivers) == 0
	}
	for _, text := range o.receivers {
		if text == key.Name || text == receiver || strings.EqualFold(text, key.Kind+"/"+key.Name) {
			return true
		}
	}
	return false
}

// completeReceivers completes the receivers that have entries in the outbox.
func (o *pendingFlags) completeReceivers(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	report, _, err := pending.Read(c.Context(), o.dataDir, 1, func(string) bool { return true })
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range report.Receivers {
		names = append(names, report.Receivers[i].Receiver)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
