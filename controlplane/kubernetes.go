package main

import (
	"os"

	// CronJobs name time zones; the machine may have no database of them.
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	// What the components expect to be registered before they start: the JSON
	// log format, client-go's metrics, and the metric that tells the version.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// run executes a Kubernetes server component: cli.Run sets up and flushes its
// logs, and prints its error, if any, with the usage where that helps.
func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
