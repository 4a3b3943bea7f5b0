package diagnosis

import (
	"cmp"
	"slices"
	"time"
)

// Cause is one reason why a workload does not run.
type Cause struct {
	// Reason is one of the Reason constants, or a reason of the caller.
	Reason string
	// Object that the cause lies in.
	Object Object
	// Container that failed, and its exit code if it ended.
	Container string
	ExitCode  *int32
	// Node that the problem lies in, if other pods on it can have the same problem.
	Node string
	// Message states what is wrong. Advice states what to do and may be empty.
	Message, Advice string
	// LateAdvice replaces Advice half an hour after Since, if the Advice is to wait. Otherwise it is empty.
	// FirstAdvice is what it has replaced. The failure is the same, see [Cause.Identity].
	LateAdvice, FirstAdvice string
	// Items are the parts of the problem, if there are several. Message is their summary. See SetItems.
	Items []string
	// Transient reports whether the problem may go away without a change.
	Transient bool
	// LateAfter is when the state becomes a failure if it lasts: until then, it is a normal start. It is
	// zero if the state is a failure already.
	LateAfter time.Time
	// Time is when it last happened, or zero if unknown.
	Time time.Time
	// Count is how often it happened, as far as is known. It is at least 1.
	Count int32
	// Since is since when it is so, or since when the object does not run. It is zero if unknown.
	Since time.Time
	// Blames are the objects that the text of a component names as the reason. The caller can find out why
	// they are as they are. Check that they belong to the problem, because users can write Events.
	Blames []Object
	// Root is why these are as they are, or nil. See SetRoot.
	Root *Root
	// Quota is the exceeded quota if the reason is ReasonQuotaExceeded, or nil.
	Quota *ExceededQuota
	// Means is what the cause means to code, or 0.
	Means Meaning
}

// Diagnosis contains the causes why a workload does not run. It is empty if the workload
// runs, or if nothing explains why it does not.
type Diagnosis struct {
	// Cause is the cause with the highest precedence, or nil.
	Cause *Cause
	// Others are the remaining causes in order.
	Others []Cause
}

// Of returns the first cause that is about a container or about the whole pod, or nil. Use it for the
// Event of a container: the others may fail for other reasons.
func (d *Diagnosis) Of(container string) *Cause {
	isAbout := func(c *Cause) bool { return container == "" || c.Container == "" || c.Container == container }
	if d.Cause == nil || isAbout(d.Cause) {
		return d.Cause
	}
	for i := range d.Others {
		if isAbout(&d.Others[i]) {
			return &d.Others[i]
		}
	}
	return nil
}

// finding is a cause with its position in the order.
type finding struct {
	cause Cause
	// position of the container in the start order of its pod.
	position int
	// known: the caller found it.
	known bool
}

// precedence orders causes by the steps of a starting pod: creation, storage, scheduling,
// images, containers, and then crashes and probes. Lower values go first.
var precedence = map[string]int{
	ReasonInvalidSpec:                   10,
	ReasonResourceConflict:              10,
	ReasonAdmissionDenied:               10,
	ReasonSecretNotFound:                10,
	ReasonInvalidSecret:                 10,
	ReasonDeploymentPaused:              15,
	ReasonQuotaExceeded:                 20,
	ReasonFailedCreate:                  25,
	ReasonClaimNotFound:                 30,
	ReasonClaimLost:                     31,
	ReasonProvisioningFailed:            32,
	ReasonClaimPending:                  33,
	ReasonFailedAttachVolume:            34,
	ReasonFailedMount:                   35,
	ReasonFailedScheduling:              40,
	ReasonPreempted:                     41,
	ReasonTaintManagerEviction:          42,
	ReasonNodeLost:                      45,
	ReasonNodeTainted:                   45,
	ReasonFinalizersRemaining:           45,
	ReasonTerminating:                   45,
	ReasonNodeShutdown:                  46,
	ReasonUnexpectedAdmissionError:      47,
	ReasonPodRejected:                   47,
	ReasonFailedPrepareDynamicResources: 48,
	ReasonFailedCreatePodSandBox:        49,
	ReasonInvalidImageName:              50,
	ReasonErrImageNeverPull:             50,
	ReasonErrImagePull:                  50,
	ReasonImagePullBackOff:              50,
	ReasonCreateContainerConfigError:    60,
	ReasonCreateContainerError:          60,
	ReasonRunContainerError:             60,
	ReasonOOMKilled:                     70,
	ReasonCrashLoopBackOff:              71,
	ReasonError:                         71,
	ReasonEvicted:                       75,
	ReasonUnhealthy:                     80,
	ReasonVolumeResizeFailed:            82,
	ReasonFileSystemResizeFailed:        82,
	ReasonFailedDelete:                  83,
	ReasonContainerStillRunning:         84,
	ReasonPodInitializing:               84,
	ReasonReadinessGatesNotReady:        84,
	ReasonProgressDeadlineExceeded:      90,
}

// unknownPrecedence is the precedence of reasons that the package does not know.
const unknownPrecedence = 85

// Diagnose returns why a workload does not run. The order of the input does not matter.
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
	return sortAndMerge(found, w.Now)
}

// DiagnoseOr is Diagnose. If there is no cause, it returns the fallback, which can be nil. The
// pause of a Deployment is a cause even if there are others.
func DiagnoseOr(w Workload, fallback *Cause) Diagnosis {
	d := Diagnose(w)
	if fallback != nil && (d.Cause == nil || fallback.Reason == ReasonDeploymentPaused) {
		w.Known = append(slices.Clone(w.Known), *fallback)
		d = Diagnose(w)
	}
	return d
}

// sortAndMerge sorts the findings and merges those with the same meaning. It ends what waits for too long.
func sortAndMerge(found []finding, now time.Time) Diagnosis {
	for i := range found {
		found[i].cause.sanitize()
	}
	slices.SortFunc(found, compareFindings)
	k := deduplicator{byIdentity: map[string]int{}, bySubject: map[subject]int{}}
	for _, f := range found {
		k.add(f)
	}
	var d Diagnosis
	for i, f := range withoutStarting(withoutDeadline(k.findings)) {
		f.cause.endWait(now)
		if i == 0 {
			d.Cause = &f.cause
		} else {
			d.Others = append(d.Others, f.cause)
		}
	}
	return d
}

// deduplicator keeps distinct findings, with the index of the first of each identity and
// of each subject.
type deduplicator struct {
	findings   []finding
	byIdentity map[string]int
	bySubject  map[subject]int
}

// subject is what a finding of the caller and one of the diagnosis have in common if they
// describe the same problem.
type subject struct {
	reason    string
	object    Object
	container string
	known     bool
}

// add keeps the finding, unless an earlier one describes the same failure, perhaps of
// another pod. The earlier one then takes over the later time, the higher count and the earlier begin.
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
		if c.Since.IsZero() || !f.cause.Since.IsZero() && f.cause.Since.Before(c.Since) {
			c.Since = f.cause.Since
		}
		return
	}
	i = len(k.findings)
	k.findings = append(k.findings, f)
	k.byIdentity[identity] = i
	if _, taken := k.bySubject[own]; !taken {
		k.bySubject[own] = i
	}
}

// withoutDeadline drops an exceeded deadline if there is a cause for it.
func withoutDeadline(found []finding) []finding {
	if len(found) < 2 {
		return found
	}
	return slices.DeleteFunc(found, func(f finding) bool { return f.cause.Reason == ReasonProgressDeadlineExceeded })
}

// withoutStarting drops what is still starting if something has failed.
func withoutStarting(found []finding) []finding {
	starting := func(f finding) bool { return !f.cause.LateAfter.IsZero() }
	if !slices.ContainsFunc(found, func(f finding) bool { return !starting(f) }) {
		return found
	}
	return slices.DeleteFunc(found, starting)
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

// IsCause reports whether reason is one of the reasons of this package.
func IsCause(reason string) bool { _, ok := precedence[reason]; return ok }

func precedenceOf(reason string) int {
	if r, ok := precedence[reason]; ok {
		return r
	}
	return unknownPrecedence
}

// exitCode returns a sort key. Causes without an exit code go first.
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
