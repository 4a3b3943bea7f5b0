package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Cause is why a workload does not run.
type Cause struct {
	// Reason is one of the API's reasons, by Kubernetes' own name where it has one.
	Reason string
	// Object that the cause lies in.
	Object Object
	// Container that failed, if it was one, and its exit code, if it ended.
	Container string
	ExitCode  *int32
	// Message says what is wrong, Advice what to do about it: a sentence each.
	Message, Advice string
	// Passing says that waiting may help.
	Transient bool
	// Time is when it last happened anew; zero if nothing says so.
	Time time.Time
	// Count is how often it has happened, as far as is known; at least 1.
	Count int32
}

// Sentence returns what is wrong and what to do.
func (c *Cause) Sentence() string {
	if c.Advice == "" {
		return c.Message
	}
	return c.Message + ": " + c.Advice
}

// Diagnosis is why a workload does not run, if it does not.
type Diagnosis struct {
	// Cause is the first of the causes by precedence; nil if there is none.
	Cause *Cause
	// Others are the rest, in order.
	Others []Cause
}

// finding is a cause with its place in the order.
type finding struct {
	cause Cause
	// place among the containers of a pod, in the order in which they start.
	position int
	// known is what whoever asks has found himself.
	known bool
}

// ranks say which cause goes before which: what keeps the pod from being made, then
// what keeps it from a node, then its containers from starting, then from running.
var precedence = map[string]int{
	ReasonInvalidSpec:                10,
	ReasonResourceConflict:           10,
	ReasonAdmissionDenied:            10,
	v1alpha1.ReasonSecretNotFound:    10,
	v1alpha1.ReasonInvalidSecret:     10,
	ReasonQuotaExceeded:              20,
	ReasonFailedCreate:               25,
	ReasonClaimNotFound:              30,
	ReasonClaimLost:                  31,
	ReasonProvisioningFailed:         32,
	ReasonClaimPending:               33,
	ReasonFailedAttachVolume:         34,
	ReasonFailedMount:                35,
	ReasonFailedScheduling:           40,
	ReasonNodeLost:                   45,
	ReasonInvalidImageName:           50,
	ReasonErrImageNeverPull:          50,
	ReasonErrImagePull:               50,
	ReasonImagePullBackOff:           50,
	ReasonCreateContainerConfigError: 60,
	ReasonCreateContainerError:       60,
	ReasonRunContainerError:          60,
	ReasonOOMKilled:                  70,
	ReasonCrashLoopBackOff:           71,
	ReasonError:                      71,
	ReasonEvicted:                    75,
	ReasonUnhealthy:                  80,
	ReasonProgressDeadlineExceeded:   90,
}

// unranked is the rank of a reason that is not one of ours.
const unknownPrecedence = 85

// Diagnose says why the workload does not run. The same knowledge gives the same
// diagnosis, in whatever order it is given.
func Diagnose(w Workload) Diagnosis {
	v := newView(w)
	var found []finding
	for _, known := range w.Known {
		found = append(found, finding{cause: known, known: true})
	}
	found = append(found, v.creationFindings()...)
	if !v.ready() {
		found = append(found, v.claimFindings()...)
		found = append(found, v.podFindings()...)
	}
	return sortAndMerge(found)
}

// conclude brings the findings into order and drops what says the same again.
func sortAndMerge(found []finding) Diagnosis {
	for i := range found {
		found[i].cause.sanitize()
	}
	slices.SortFunc(found, compareFindings)
	k := deduplicator{byIdentity: map[string]int{}, bySubject: map[subject]int{}}
	for _, f := range found {
		k.add(f)
	}
	var d Diagnosis
	for i, f := range withoutDeadline(k.findings) {
		if i == 0 {
			d.Cause = &f.cause
		} else {
			d.Others = append(d.Others, f.cause)
		}
	}
	return d
}

// kept are the findings that say something of their own, and the first of them of an
// identity and of a spot.
type deduplicator struct {
	findings   []finding
	byIdentity map[string]int
	bySubject  map[subject]int
}

// spot is what a finding of somebody's own and one of the diagnosis may share.
type subject struct {
	reason    string
	object    Object
	container string
	known     bool
}

// add keeps the finding, unless another stands for it: that is the same failure, maybe
// of another pod, or known already. It takes over when that happened, and how often.
func (k *deduplicator) add(f finding) {
	identity := f.cause.Identity()
	own := subject{f.cause.Reason, f.cause.Object, f.cause.Container, f.known}
	other := own
	other.known = !f.known
	i, found := k.byIdentity[identity]
	if j, same := k.bySubject[other]; same && (!found || j < i) {
		i, found = j, true
	}
	if found {
		c := &k.findings[i].cause
		if f.cause.Time.After(c.Time) {
			c.Time = f.cause.Time
		}
		c.Count = max(c.Count, f.cause.Count)
		return
	}
	i = len(k.findings)
	k.findings = append(k.findings, f)
	k.byIdentity[identity] = i
	if _, taken := k.bySubject[own]; !taken {
		k.bySubject[own] = i
	}
}

// explained drops the deadline where a cause of the delay is known.
func withoutDeadline(found []finding) []finding {
	if len(found) < 2 {
		return found
	}
	return slices.DeleteFunc(found, func(f finding) bool { return f.cause.Reason == ReasonProgressDeadlineExceeded })
}

func compareFindings(a, b finding) int {
	return cmp.Or(
		cmp.Compare(precedenceOf(a.cause.Reason), precedenceOf(b.cause.Reason)),
		cmp.Compare(a.position, b.position),
		cmp.Compare(a.cause.Object.Kind, b.cause.Object.Kind),
		cmp.Compare(a.cause.Object.Name, b.cause.Object.Name),
		cmp.Compare(a.cause.Container, b.cause.Container),
		cmp.Compare(a.cause.Reason, b.cause.Reason),
		cmp.Compare(a.cause.Message, b.cause.Message),
		cmp.Compare(a.cause.Advice, b.cause.Advice),
		b.cause.Time.Compare(a.cause.Time),
		cmp.Compare(exitCode(&a.cause), exitCode(&b.cause)),
		cmp.Compare(a.cause.Count, b.cause.Count),
		compareBool(a.cause.Transient, b.cause.Transient),
		compareBool(b.known, a.known),
	)
}

// IsCause tells whether the reason is one of those that a cause may have.
func IsCause(reason string) bool { _, ok := precedence[reason]; return ok }

func precedenceOf(reason string) int {
	if r, ok := precedence[reason]; ok {
		return r
	}
	return unknownPrecedence
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
