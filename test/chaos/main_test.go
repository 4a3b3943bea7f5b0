package chaos

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/bongsu-io/bongsu/internal/cli"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// bongsuEnv makes the test binary run as bongsu.
const bongsuEnv = "BONGSU_CHAOS_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(bongsuEnv) != "" {
		os.Exit(bongsu())
	}
	os.Exit(cluster.Main(m))
}

// bongsu is cmd/bongsu, but exits with the test that started it.
func bongsu() int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
