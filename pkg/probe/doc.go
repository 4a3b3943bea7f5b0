// Package probe runs checks of pods again and again, on a bounded pool that no
// reconcile waits for: is the server in the pod used, does the app in it answer.
//
// It knows when to run a check and which result still counts. What a check does,
// and what its result means, is the caller's: the package must not look at pods,
// and keeps no history.
//
// What it holds to:
//
//   - At most one run is in flight for each pod UID, whoever asked for it.
//   - At most so many runs as there are workers are waited for. Each ends at its
//     timeout, by its context; one that ignores its context is given up soon after,
//     and holds up nobody but its own pod, which is not checked again until it has
//     returned.
//   - A namespace whose runs all hang gets half of the workers at most, so that others
//     are not held up. Its own checks wait for each other, and each has its turn.
//   - The result for a pod that was replaced or removed meanwhile is discarded.
//   - A check keeps its cadence, however often it is put again. Checks are spread by
//     a hash of key and UID, so that a restart does not probe everything at once.
//   - A check that waits costs a place in a heap: neither goroutine nor timer.
package probe
