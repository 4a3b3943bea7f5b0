package appservice_test

import (
	"os"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Whole(2))) }

// patience is how long something is waited for that goes through several hands: the
// machine may be busy.
const patience = 2 * time.Minute
