package jupyter_test

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Whole(1))) }

// patience is how long something is waited for that goes through several hands: the
// machine may be busy.
const patience = time.Minute

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
