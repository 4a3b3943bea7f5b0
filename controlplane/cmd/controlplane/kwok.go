package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// kwok reads the defaults of its flags from its configuration files. It therefore
// parses --config and the logging flags before the command exists.
func kwok() {
	dropSharedFlags()
	early := pflag.NewFlagSet("global", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true // the command's own, parsed later
	early.Usage = func() {}                        // --help is the command's to answer

	ctx, logger := log.InitFlags(signals.SetupSignalContext(), early)
	if err := runKwok(ctx, early); err != nil {
		logger.Error("kwok failed", "err", err)
		os.Exit(1)
	}
}

func runKwok(ctx context.Context, early *pflag.FlagSet) error {
	ctx, err := config.InitFlags(ctx, early)
	if err != nil {
		return err
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	return command.ExecuteContext(ctx)
}
