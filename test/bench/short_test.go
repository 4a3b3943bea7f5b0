package bench

import (
	"cmp"
	"testing"
)

// scaled returns how many things a benchmark uses: a tenth of all with -short.
func scaled(all int) int {
	if testing.Short() {
		return all / 10
	}
	return all
}

// exceeds reports whether a time is beyond its limit. With -short, no time is exact enough.
func exceeds[T cmp.Ordered](measured, limit T) bool { return !testing.Short() && measured > limit }
