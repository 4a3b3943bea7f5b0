package checkpoint

import (
	"fmt"
	"maps"
	"slices"
)

// MaxWaiting bounds how many keys are read to be put into Mirror.Waiting.
const MaxWaiting = 10_000

// maxWaiting bounds Waiting, in bytes as JSON: that and maxBehind are within what a
// ConfigMap has room for. Whoever makes receivers chooses how long their names are.
const maxWaiting = 480 << 10

// fitWaiting makes Waiting small enough: receivers of the namespaces that have most of
// it are behind instead.
func (m *Checkpoint) fitWaiting() {
	sizes := map[string]int{}
	for receiver, held := range m.Waiting {
		size := len(fmt.Sprintf("%q:{},", receiver))
		for key, position := range held {
			size += len(fmt.Sprintf("%q:%d,", key, position))
		}
		sizes[owner(receiver)] += size
	}
	for largest := range beyond(sizes, maxWaiting) {
		for receiver, held := range m.Waiting {
			if owner(receiver) == largest {
				m.FallBehind(receiver, slices.Min(slices.Collect(maps.Values(held))))
				delete(m.Waiting, receiver)
			}
		}
	}
}

// FallBehind says of a receiver that it has not been sent what is at a position, nor
// what comes after it.
func (m *Checkpoint) FallBehind(receiver string, position uint64) {
	behind, ok := m.Behind[receiver]
	if !ok {
		behind = m.Position
	}
	m.Behind[receiver] = min(behind, position-1)
}
