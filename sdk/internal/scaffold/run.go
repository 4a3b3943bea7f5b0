package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// local is the command that runs an operator on a control plane.
const local = "cmd/local"

func newRun() *cobra.Command {
	c := &cobra.Command{
		Use:   "run [-- FLAG...]",
		Short: "Run the operator on a control plane on this machine",
		Long: `Run the operator on a control plane on this machine, with the permissions of its generated
role. It needs no cluster and no Docker. Nodes and pods are simulated: no container runs, so the
health of each pod is Unknown. The first run builds the control plane, which takes minutes. Its data
is in bin/local.

Webhooks do not run, because the API server cannot reach them. Their tests do.

Flags after -- are those of the operator. To change how it runs, edit cmd/local/main.go.`,
		Example: `  bongsu-sdk run
  bongsu-sdk run -- --metrics-bind-address=:8080 --metrics-secure=false`,
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q: write the flags of the operator after --", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := loadProject(); err != nil {
				return err
			}
			if _, err := os.Stat(local); errors.Is(err, fs.ErrNotExist) {
				return errors.New("the project contains no " + local + ": copy it from a new project that bongsu-sdk init has made")
			}
			if _, err := generateAndPrint(c); err != nil {
				return err
			}
			binary := filepath.Join("bin", "run")
			if err := goBuild(c.Context(), c.ErrOrStderr(), nil, "-o", binary, "./"+local); err != nil {
				return err
			}
			return syscall.Exec(binary, append([]string{binary}, args...), os.Environ()) //nolint:forbidigo // the environment of the user is that of the operator
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w: write the flags of the operator after --", err)
	})
	return c
}
