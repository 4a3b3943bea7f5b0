// Package component runs the server components of Kubernetes the way their own
// main functions do.
package component

import (
	"os"

	// CronJobs name time zones, and the machine may have no time zone database.
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	// The components expect these to be registered before they start: the JSON
	// log format, client-go's metrics, and the version metric.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// Run executes a component and exits the process. cli.Run sets up and flushes
// the logs, and prints an error with the usage where that helps.
func Run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
