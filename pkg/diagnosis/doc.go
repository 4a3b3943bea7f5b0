// Package diagnosis explains why a workload does not run. It is for operators that
// create pods and report failures in the status of their own objects.
//
// The caller collects what it knows: the pods, their claims, the Events that
// regard them, and errors of the API server. [Diagnose] returns the cause with the
// highest precedence. A [Cause] has a reason, the object that it lies in, and a
// sentence of the form "what is wrong: what to do":
//
//	w := diagnosis.Workload{Pods: pods, Claims: claims, Events: events}
//	if cause := diagnosis.Diagnose(w).Cause; cause != nil {
//		fmt.Println(cause.Reason, cause.Sentence())
//	}
//
// Use [FromAPIError] for errors of create and update requests. Use [Cause.Stabilize] for
// conditions that do not flap. Use [RecordFailure] to keep the last failure in a status.
//
// [Diagnosis.Complete] adds to a few messages what it reads by a [Lookup] of the caller.
//
// The package is pure otherwise. It reads neither the cluster nor the clock, and the same
// input gives the same cause, in any order. It returns no errors: a text that it does not
// know becomes a part of the message.
//
// Limits:
//
//   - Messages have at most 700 bytes and advice at most 320, without control characters.
//   - It stops at about 64 causes for each pod.
//   - Everyone who can read the workload's status can read its causes. Never pass logs
//     or values of Secrets. The package itself ignores termination messages of
//     containers, which can contain log lines.
//   - The texts of kubelets, schedulers and container runtimes are not an API. After an
//     update of Kubernetes, a message can be less specific.
package diagnosis
