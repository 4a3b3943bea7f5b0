// Command bongsu-sdk makes Kubernetes operators that use the packages in pkg/ of Bongsu.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/bongsu-io/bongsu/sdk/internal/scaffold"
)

func main() { os.Exit(run()) }

func run() (exitCode int) {
	// The commands that the tool runs receive the same signal. They fail, and the tool then
	// restores the files.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := scaffold.Run(ctx, os.Args[1:], os.Getenv("BONGSU_TOOLKIT")); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}
