// Package health decides, by what checks of its pods came to, how an app fares: which
// pods are unhealthy, what its status says of them, what is news, and which pod is to
// be restarted. It is pure: observations, status and time are handed to it.
//
// What it holds to:
//
//   - A pod turns by a row of checks, never by one: unhealthy by so many failures
//     without a pass between, healthy again by so many passes without a failure
//     between. That the operator may not make the check is certain at once.
//   - A check that could not be made is no failure. It neither adds to a row of
//     failures nor breaks it: a bad network must not hide an app that fails. So many
//     of them, with no check made between, make the pod's health unknown, and what was
//     counted until then no longer counts.
//   - A status changes when a pod turns, and otherwise every five minutes at most,
//     however often the checks fail.
//   - After a restart of the operator what the status says goes on until a check says
//     otherwise: nothing is told twice, nothing flips.
//   - Only what was checked since is restarted: a pod whose last check was made and
//     failed, with all of the row in its present container.
//
// It must not act: neither Events nor writes nor evictions are its own.
package health
