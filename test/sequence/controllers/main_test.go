// Package controllers tests Jupyters, AppServices and shared Secrets with random sequences of
// operations. Objects are created, changed, deleted in every way and created again. Users edit
// and delete what the operator made for them, hold it by finalizers, and delete namespaces. The
// operator is killed, and misses operations while it does not run. The API server, the
// controllers of Kubernetes and the process of the operator are real. Nodes are simulated.
//
// At its end, each sequence waits until the cluster is settled. It then compares the objects
// with those of the same manifests in fresh namespaces. To run a sequence that failed again:
//
//	go test ./test/sequence/controllers -sequence.ops='create(0,4) delete(0,2) create(0,1)'
//
// The speed of the cluster does not depend on the seed. A sequence can therefore fail in some
// of its runs only.
package controllers

import (
	"os"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/process"
)

// Backups by command run on this machine.
func TestMain(m *testing.M) {
	process.Main()
	os.Exit(cluster.Main(m, cluster.Whole(2), cluster.Exec(os.Getenv("PATH"))))
}
