package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
)

// commandPage returns the page of a command and all commands below it.
func commandPage(root *cobra.Command) func(*bytes.Buffer) error {
	return func(w *bytes.Buffer) error {
		fmt.Fprintf(w, "# Command line reference\n\nThe same is shown by `%s COMMAND --help`.\n\n", root.Name())
		writeCommand(w, root)
		return nil
	}
}

func writeCommand(w *bytes.Buffer, c *cobra.Command) {
	if !c.IsAvailableCommand() && c.HasParent() {
		return // cobra's own help, and what is hidden
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(w, "## %s\n\n%s\n\n", c.CommandPath(), text)
	if c.Runnable() {
		fmt.Fprintf(w, "```\n%s\n```\n\n", c.UseLine())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "Example:\n\n```\n%s\n```\n\n", c.Example)
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "Flags:\n\n```\n%s```\n\n", c.LocalFlags().FlagUsages())
	}
	for _, below := range c.Commands() {
		writeCommand(w, below)
	}
}
