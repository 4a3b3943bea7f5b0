package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// outputText is the default output format of commands that print lines.
const outputText = "text"

// completeOutput completes the values of --output in the shell.
func completeOutput(c *cobra.Command) {
	command.CompleteFormats(c, outputText, command.OutputJSON)
}

func checkOutput(format string) error {
	if format != outputText && format != command.OutputJSON {
		return fmt.Errorf("--output is %q: use text or json", format)
	}
	return nil
}

// addCluster adds the flags of kubectl that choose the cluster and the user.
func addCluster(c *cobra.Command, cluster *kube.Target) {
	flags := c.Flags()
	command.AddKubeconfig(flags, &cluster.Kubeconfig)
	flags.StringVar(&cluster.Context, "context", "", "`name` of a context of the kubeconfig, instead of the current one")
	flags.StringVar(&cluster.As, "as", "", "`user` to impersonate")
	flags.StringArrayVar(&cluster.AsGroups, "as-group", nil, "`group` to impersonate; can be repeated")
	_ = c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		contexts, _ := cluster.Contexts()
		return contexts, cobra.ShellCompDirectiveNoFileComp
	})
}
