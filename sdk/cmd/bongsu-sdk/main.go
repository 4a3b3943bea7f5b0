// Command bongsu-sdk makes Kubernetes operators that use the packages in pkg/ of Bongsu.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bongsu-io/bongsu/sdk/internal/scaffold"
)

func main() { os.Exit(run()) }

func run() (exitCode int) {
	// The tool restores the files as soon as the commands that it runs have ended. In a terminal,
	// they receive the same signal.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := scaffold.Run(ctx, os.Args[1:], os.Getenv("BONGSU_TOOLKIT"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}
