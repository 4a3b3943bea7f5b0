package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Values of --output.
const (
	OutputTable = "table"
	OutputJSON  = "json"
	OutputYAML  = "yaml"
)

// CompleteFormats completes --output with these formats.
func CompleteFormats(c *cobra.Command, formats ...string) {
	CompleteFlag(c, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFlag sets the completion of a flag, which must exist.
func CompleteFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// CheckTable returns an error if the format is not one of PrintTable.
func CheckTable(format string) error {
	switch format {
	case OutputTable, OutputJSON, OutputYAML:
		return nil
	}
	return fmt.Errorf("--output is %q: use table, json or yaml", format)
}

// PrintTable prints a value as JSON or YAML, or with the function table.
func PrintTable[T any](out io.Writer, format string, value T, table func(io.Writer, T) error) error {
	switch format {
	case OutputJSON:
		return PrintJSON(out, value)
	case OutputYAML:
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return table(out, value)
}

// PrintJSON prints a value as indented JSON.
func PrintJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
