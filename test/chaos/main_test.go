package chaos

import (
	"io"
	"os"
	"testing"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/operator/cmd"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// operatorEnv makes the test binary run as bongsu-operator.
const operatorEnv = "BONGSU_CHAOS_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(operatorEnv) != "" {
		os.Exit(runOperator())
	}
	os.Exit(cluster.Main(m))
}

// runOperator is cmd/bongsu-operator, but exits with the test that started it.
func runOperator() int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return command.Main(cmd.New())
}
