package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Programs that are linked together share the package variables of their
// libraries, and some set them just by being imported. This file undoes the settings
// that would make another program behave unlike its upstream.

// Importing etcdctl makes every cobra command in the process accept abbreviated
// names of its subcommands. kubectl must not guess what "de" stands for.
func init() {
	cobra.EnablePrefixMatching = false
}

// dropSharedFlags forgets the flags that cobra adds to every command from
// pflag.CommandLine. Kubernetes' own programs want theirs (--version); in any
// other program they hide its flag of that name, and kwok fails on it.
func dropSharedFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}
