package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The formats of the output.
const (
	outputText = "text"
	outputJSON = "json"
)

// completeOutput has the shell complete --output.
func completeOutput(c *cobra.Command) {
	formats := cobra.FixedCompletions([]string{outputText, outputJSON}, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("output", formats); err != nil {
		panic(err) // there is no such flag
	}
}

func checkOutput(format string) error {
	if format != outputText && format != outputJSON {
		return fmt.Errorf("--output is %q; it must be text or json", format)
	}
	return nil
}

// printJSON prints a value for programs and readers.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
