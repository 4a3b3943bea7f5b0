package size

import (
	"cmp"
	"os"
)

// Scaled returns how many things a benchmark uses: a tenth of all in make test-e2e.
func Scaled(all int) int {
	if isScaled() {
		return all / 10
	}
	return all
}

// Exceeds reports whether a time or a rate of a benchmark is beyond its limit. In make test-e2e, none is
// exact enough.
func Exceeds[T cmp.Ordered](measured, limit T) bool { return !isScaled() && measured > limit }

func isScaled() bool { return os.Getenv(Variable) == E2E }
