package alarms_test

import (
	"os"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
