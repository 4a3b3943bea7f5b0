package scaffold

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run [-- FLAG...]",
		Short: "Run the operator on a control plane on this machine",
		Long: `Run the operator on a control plane on this machine, with the permissions of its generated
role. It needs no cluster and no Docker. Nodes and pods are simulated. The first run builds the
control plane, which takes minutes. Its data is in bin/local.

Flags after -- are those of the operator. To change how it runs, edit cmd/local/main.go.`,
		Example: `  bongsu-sdk run
  bongsu-sdk run -- --metrics-bind-address=:8080 --metrics-secure=false`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := generateAndPrint(c); err != nil {
				return err
			}
			binary := filepath.Join("bin", "run")
			if err := goCommand(c.Context(), "build", "-o", binary, "./cmd/local"); err != nil {
				return err
			}
			return syscall.Exec(binary, append([]string{binary}, args...), os.Environ()) //nolint:forbidigo // the environment of the user is that of the operator
		},
	}
}
