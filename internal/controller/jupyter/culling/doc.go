// Package culling decides whether nobody uses a notebook, when to warn of stopping
// it, and when to stop it. It is pure: what the probes found is given to it, and so
// is the time.
//
// What it holds to:
//
//   - A notebook is culled by a successful probe alone, that began at or after the
//     time that the warning named, and found it unused for all of the idle time-out.
//     No probe that failed, none that is old, and no lack of probes culls.
//   - The warning comes first. Use of the notebook takes it back; so does a server
//     that stops answering.
//   - A start is a use: a notebook that is resumed has its whole time again.
//   - When the probes of a notebook break off, or the clock jumps, what was due
//     meanwhile is not carried out: the warning is given anew.
//   - What the status remembers is enough to go on after a restart of the operator,
//     in the middle of a warning too.
//   - A status changes with a condition, with the time of culling, and otherwise
//     every five minutes at most.
//
// It must not act: neither Events nor writes are its own.
package culling
