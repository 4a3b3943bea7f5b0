package dialguard

import (
	"context"
	"net/netip"
)

// Verify calls verify.
func Verify(ctx context.Context, g *Guard, addr netip.Addr) error { return g.verify(ctx, addr) }
