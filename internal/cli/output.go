package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/command"
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
