package e2e

import (
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }
