package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/command"
)

// The output formats.
const (
	outputText  = "text"
	outputJSON  = command.OutputJSON
	outputTable = command.OutputTable
	outputYAML  = command.OutputYAML
)

// completeOutput completes the values of --output in the shell.
func completeOutput(c *cobra.Command) { completeFormats(c, outputText, outputJSON) }

func completeFormats(c *cobra.Command, formats ...string) { command.CompleteFormats(c, formats...) }

func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	command.CompleteFlag(c, flag, complete)
}

func checkOutput(format string) error {
	if format != outputText && format != outputJSON {
		return fmt.Errorf("--output is %q: use text or json", format)
	}
	return nil
}

func checkTable(format string) error { return command.CheckTable(format) }

func printTable[T any](out io.Writer, format string, value T, table func(io.Writer, T) error) error {
	return command.PrintTable(out, format, value, table)
}

func printJSON(out io.Writer, value any) error { return command.PrintJSON(out, value) }
