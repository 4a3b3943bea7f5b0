package appservice_test

import (
	"os"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// Commands that are run in pods are run on this machine.
func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Whole(2), cluster.Exec(os.Getenv("PATH"))))
}

// patience is how long something is waited for that goes through several hands: the
// machine may be busy.
const patience = 2 * time.Minute

// startOwn starts a cluster that no other test uses, for a test that changes roles or policies.
func startOwn(t *testing.T) *cluster.Cluster {
	t.Helper()
	return cluster.Start(t, cluster.Whole(1), cluster.Exec(os.Getenv("PATH")))
}
