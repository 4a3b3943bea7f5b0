package diagnosis

import (
	"cmp"
	"slices"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// finding is a cause with its place in the order.
type finding struct {
	cause Cause
	// place among the containers of a pod, in the order in which they start.
	place int
	// known is what whoever asks has found himself.
	known bool
	// identity of the cause, which takes a while to find out.
	identity string
}

// ranks say which cause goes before which: what keeps the pod from being made, then
// what keeps it from a node, then its containers from starting, then from running.
var ranks = map[string]int{
	v1alpha1.ReasonInvalidSpec:                10,
	v1alpha1.ReasonResourceConflict:           10,
	v1alpha1.ReasonAdmissionDenied:            10,
	v1alpha1.ReasonSecretNotFound:             10,
	v1alpha1.ReasonInvalidSecret:              10,
	v1alpha1.ReasonQuotaExceeded:              20,
	v1alpha1.ReasonFailedCreate:               25,
	v1alpha1.ReasonClaimNotFound:              30,
	v1alpha1.ReasonClaimLost:                  31,
	v1alpha1.ReasonProvisioningFailed:         32,
	v1alpha1.ReasonClaimPending:               33,
	v1alpha1.ReasonFailedAttachVolume:         34,
	v1alpha1.ReasonFailedMount:                35,
	v1alpha1.ReasonFailedScheduling:           40,
	v1alpha1.ReasonNodeLost:                   45,
	v1alpha1.ReasonInvalidImageName:           50,
	v1alpha1.ReasonErrImageNeverPull:          50,
	v1alpha1.ReasonErrImagePull:               50,
	v1alpha1.ReasonImagePullBackOff:           50,
	v1alpha1.ReasonCreateContainerConfigError: 60,
	v1alpha1.ReasonCreateContainerError:       60,
	v1alpha1.ReasonRunContainerError:          60,
	v1alpha1.ReasonOOMKilled:                  70,
	v1alpha1.ReasonCrashLoopBackOff:           71,
	v1alpha1.ReasonError:                      71,
	v1alpha1.ReasonEvicted:                    75,
	v1alpha1.ReasonUnhealthy:                  80,
	v1alpha1.ReasonProgressDeadlineExceeded:   90,
}

// unranked is the rank of a reason that is not one of ours.
const unranked = 85

// Diagnose says why the workload does not run. The same knowledge gives the same
// diagnosis, in whatever order it is given.
func Diagnose(w Workload) Diagnosis {
	v := newView(w)
	var found []finding
	for _, known := range w.Known {
		found = append(found, finding{cause: known, known: true})
	}
	found = append(found, v.creation()...)
	if !v.ready() {
		found = append(found, v.storage()...)
		found = append(found, v.running()...)
	}
	return conclude(found)
}

// conclude brings the findings into order and drops what says the same again.
func conclude(found []finding) Diagnosis {
	for i := range found {
		found[i].cause.tidy()
		found[i].identity = found[i].cause.Identity()
	}
	slices.SortFunc(found, before)
	var kept []finding
	for _, f := range found {
		if !absorbed(kept, f) {
			kept = append(kept, f)
		}
	}
	kept = explained(kept)
	var d Diagnosis
	for i, f := range kept {
		if i == 0 {
			d.Cause = &f.cause
		} else {
			d.Others = append(d.Others, f.cause)
		}
	}
	return d
}

// absorbed tells whether one of the findings stands for this one: it is the same
// failure, maybe of another pod, or what is known already. It takes over when that
// happened, and how often.
func absorbed(kept []finding, f finding) bool {
	i := slices.IndexFunc(kept, func(k finding) bool {
		return k.known != f.known && samePlace(&k.cause, &f.cause) || k.identity == f.identity
	})
	if i < 0 {
		return false
	}
	c := &kept[i].cause
	if f.cause.Time.After(c.Time) {
		c.Time = f.cause.Time
	}
	c.Count = max(c.Count, f.cause.Count)
	return true
}

func samePlace(a, b *Cause) bool {
	return a.Reason == b.Reason && a.Object == b.Object && a.Container == b.Container
}

// explained drops the deadline where a cause of the delay is known.
func explained(found []finding) []finding {
	if len(found) < 2 {
		return found
	}
	return slices.DeleteFunc(found, func(f finding) bool { return f.cause.Reason == v1alpha1.ReasonProgressDeadlineExceeded })
}

func before(a, b finding) int {
	return cmp.Or(
		cmp.Compare(rank(a.cause.Reason), rank(b.cause.Reason)),
		cmp.Compare(a.place, b.place),
		cmp.Compare(a.cause.Object.Kind, b.cause.Object.Kind),
		cmp.Compare(a.cause.Object.Name, b.cause.Object.Name),
		cmp.Compare(a.cause.Container, b.cause.Container),
		cmp.Compare(a.cause.Reason, b.cause.Reason),
		cmp.Compare(a.cause.Message, b.cause.Message),
		cmp.Compare(a.cause.Advice, b.cause.Advice),
		b.cause.Time.Compare(a.cause.Time),
		cmp.Compare(exitCode(&a.cause), exitCode(&b.cause)),
		cmp.Compare(a.cause.Count, b.cause.Count),
		compareBool(a.cause.Passing, b.cause.Passing),
		compareBool(b.known, a.known),
	)
}

// IsCause tells whether the reason is one of those that a cause may have.
func IsCause(reason string) bool { _, ok := ranks[reason]; return ok }

func rank(reason string) int {
	if r, ok := ranks[reason]; ok {
		return r
	}
	return unranked
}

// exitCode orders by the exit code, none first.
func exitCode(c *Cause) int64 {
	if c.ExitCode == nil {
		return -1 << 40
	}
	return int64(*c.ExitCode)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
