package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The output formats.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputTable = "table"
)

// completeOutput completes the values of --output in the shell.
func completeOutput(c *cobra.Command) { completeFormats(c, outputText, outputJSON) }

func completeFormats(c *cobra.Command, formats ...string) {
	completeFlag(c, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

func checkOutput(format string) error {
	if format != outputText && format != outputJSON {
		return fmt.Errorf("--output is %q: use text or json", format)
	}
	return nil
}

// checkTable is checkOutput for commands that print tables.
func checkTable(format string) error {
	switch format {
	case outputTable, outputJSON, outputYAML:
		return nil
	}
	return fmt.Errorf("--output is %q: use table, json or yaml", format)
}

// printTable prints a value in one of the formats of checkTable.
func printTable[T any](out io.Writer, format string, value T, table func(io.Writer, T) error) error {
	switch format {
	case outputJSON:
		return printJSON(out, value)
	case outputYAML:
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return table(out, value)
}

// printJSON prints a value as indented JSON.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
