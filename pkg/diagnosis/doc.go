// Package diagnosis says why a workload does not run: from its pods, claims,
// quotas, Events and what the API server refused to a cause, the object that it lies
// in, and a sentence that says what to do.
//
// It is pure: it is handed what is known, and the same knowledge gives the same
// cause, in whatever order it comes. What it says may be read by whoever may read
// the workload, so it must never be handed logs or values of Secrets.
package diagnosis
