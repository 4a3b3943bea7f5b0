// Command bongsu is the operator and its tools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/bongsu-io/bongsu/internal/cli"
	_ "github.com/bongsu-io/bongsu/internal/operator/embedded"
	// for images that hold nothing else
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
