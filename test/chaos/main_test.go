package chaos

import (
	"os"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/process"
)

func TestMain(m *testing.M) {
	process.Main()
	os.Exit(cluster.Main(m))
}
