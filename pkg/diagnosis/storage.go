package diagnosis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var provisioningRules = []rule{
	{regexp.MustCompile(`(?:storageclass[\w.]*|StorageClass) "([^"]+)" not found`),
		`StorageClass "${1}" does not exist`, "use another one (kubectl get storageclass lists them)", false},
	{regexp.MustCompile(`(?i)exceeded quota`),
		"a quota of the storage backend is exceeded", "request less, or remove unused volumes", true},
	{regexp.MustCompile(`(?i)insufficient|no space|out of space|not enough`),
		"the storage backend is full", "request less, or wait until space is available", true},
	{regexp.MustCompile(`(?i)not supported|invalid`),
		"the storage backend does not support such a volume", "check accessModes, volumeMode and size of the claim", false},
	{regexp.MustCompile(`(?i)deadline exceeded|timed? ?out|unavailable|connection refused`),
		"the storage backend does not respond", "wait; if the problem persists, ask the cluster's administrator", true},
}

// claimFindings returns what is wrong with the claims.
func (v *view) claimFindings() []finding {
	var found []finding
	for _, c := range v.Claims {
		if cause, ok := v.claimCause(c); ok {
			found = append(found, finding{cause: cause})
		}
	}
	return found
}

func (v *view) claimCause(c *corev1.PersistentVolumeClaim) (Cause, bool) {
	cause := Cause{Object: Object{kindClaim, c.Name}, Count: 1, Time: c.CreationTimestamp.Time}
	switch {
	case c.DeletionTimestamp != nil, c.Status.Phase == corev1.ClaimBound:
		return Cause{}, false
	case c.Status.Phase == corev1.ClaimLost:
		cause.Reason = ReasonClaimLost
		cause.Message = fmt.Sprintf("the volume of claim %q no longer exists", c.Name)
		cause.Advice = "restore the volume under the same name from a backup, or delete the claim and start again"
		return cause, true
	}
	return v.pendingClaim(c, cause)
}

// pendingClaim returns why a claim has no volume. It is no cause if the claim waits for
// its pod to be scheduled, or has just been created.
func (v *view) pendingClaim(c *corev1.PersistentVolumeClaim, cause Cause) (Cause, bool) {
	events := v.eventsFor(Object{kindClaim, c.Name}, c.UID)
	waits := latest(events, "WaitForFirstConsumer", "WaitForPodScheduled")
	if failed := latest(events, "ProvisioningFailed"); failed != nil && !waits.isAfter(failed.LastSeen) {
		r := matchOr(provisioningRules, stripNoise(failed.Note), "check the claim; if it is correct, ask the cluster's administrator")
		cause.Reason = ReasonProvisioningFailed
		cause.Message = fmt.Sprintf("no volume can be provisioned for claim %q: %s", c.Name, r.message)
		cause.Advice, cause.Transient = r.advice, r.transient
		return cause.withEvent(failed), true
	}
	cause.Reason, cause.Transient = ReasonClaimPending, true
	cause.Message = fmt.Sprintf("claim %q waits for a volume", c.Name)
	if failed := latest(events, "FailedBinding", "VolumeMismatch"); failed != nil && !waits.isAfter(failed.LastSeen) {
		cause.Message += ": " + excerpt(lowerFirst(stripNoise(failed.Note)))
		cause.Advice = "set storageClassName, or create a matching PersistentVolume"
		return cause.withEvent(failed), true
	}
	if external := latest(events, "ExternalProvisioning"); external != nil {
		cause.Advice = "wait for its provisioner; if the problem persists, ask the cluster's administrator"
		return cause, true
	}
	cause.Advice = "no Event gives the reason; ask the cluster's administrator"
	return cause, waits == nil && v.blocksScheduling(c.Name)
}

var (
	unboundClaims = regexp.MustCompile(`unbound immediate PersistentVolumeClaims`)
	claimNotFound = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
)

// blocksScheduling reports whether the scheduler waits for the claim to be bound.
func (v *view) blocksScheduling(claim string) bool {
	return slices.ContainsFunc(v.currentPods, func(p *corev1.Pod) bool {
		scheduled := condition(p, corev1.PodScheduled)
		return scheduled != nil && unboundClaims.MatchString(scheduled.Message) && slices.Contains(ClaimsOf(p), claim)
	})
}

// ClaimsOf returns the names of the claims that the pod mounts.
func ClaimsOf(p *corev1.Pod) []string {
	var names []string
	for _, volume := range p.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, p.Name+"-"+volume.Name)
		}
	}
	return names
}

// claimProblem returns what the scheduler reports about claims. It returns nothing if the
// claim itself shows more. It returns false if the text is not about claims.
func (s *podView) claimProblem(text string, cause *Cause) ([]finding, bool) {
	if m := claimNotFound.FindStringSubmatch(text); m != nil {
		if s.claims[m[1]] != nil {
			return nil, true // it does by now
		}
		notFound := ClaimNotFound(m[1])
		notFound.Time = cause.Time
		return []finding{{cause: notFound}}, true
	}
	if !unboundClaims.MatchString(text) {
		return nil, false
	}
	names := ClaimsOf(s.pod)
	for _, name := range names {
		if s.claims[name] != nil {
			return nil, true
		}
	}
	cause.Reason = ReasonClaimPending
	cause.Message = "a claim that the pod mounts waits for a volume"
	if len(names) == 1 {
		cause.Object, cause.Message = Object{kindClaim, names[0]}, fmt.Sprintf("claim %q waits for a volume", names[0])
	}
	cause.Advice = "check its Events (kubectl describe pvc)"
	return []finding{{cause: *cause}}, true
}

// ClaimNotFound returns the cause of a pod that mounts a claim that does not exist.
func ClaimNotFound(name string) Cause {
	return Cause{
		Reason: ReasonClaimNotFound, Object: Object{kindClaim, name}, Count: 1,
		Message: fmt.Sprintf("claim %q that the pod mounts does not exist", name), Advice: "create it, or correct its name",
	}
}

// maxEventDelay is how long after the fact an Event may be written.
const maxEventDelay = time.Minute

// Patterns for the name of a volume: one requires the name, the other allows it.
const (
	namesVolume   = `for volume "([^"]+)"`
	mayNameVolume = `^(?:.*?` + namesVolume + `)?`
)

var mountRules = []rule{
	{regexp.MustCompile(mayNameVolume + `.*configmap "([^"]+)" not found`),
		`volume "${1}" cannot be mounted: ConfigMap "${2}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(mayNameVolume + `.*secret "([^"]+)" not found`),
		`volume "${1}" cannot be mounted: Secret "${2}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(mayNameVolume + `.*references non-existent (config|secret) key: (\S+)`),
		`volume "${1}" cannot be mounted: key "${3}" does not exist in its ConfigMap or Secret`, "add the key, or correct its name", false},
	{regexp.MustCompile(mayNameVolume + `.*failed to sync (\w+) cache`),
		`volume "${1}" cannot be mounted yet: the node has not loaded the ${2}`, "wait", true},
	{regexp.MustCompile(mayNameVolume + `.*hostPath type check failed: (\S+) is not a (\w+)`),
		`volume "${1}" cannot be mounted: ${2} of the node is not a ${3}`, "correct the path, or use another kind of volume", false},
	{regexp.MustCompile(`Multi-Attach error ` + namesVolume),
		`volume "${1}" cannot be attached: it is attached to another node`, "wait until the pod that uses it ends, or stop that pod", true},
	{regexp.MustCompile(`(?:AttachVolume\.\w+|attach) failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be attached to the node: ${2}`, "wait; if the problem persists, ask the cluster's administrator", true},
	{regexp.MustCompile(`(?:MountVolume|MapVolume)\.\w+ failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be mounted: ${2}`, "check the volume; if it is correct, ask the cluster's administrator", true},
	{regexp.MustCompile(`unmounted volumes=\[([^\]]+)\]`),
		"mounting volumes timed out: ${1}", "wait; if the problem persists, ask the cluster's administrator", true},
}

// allVolumes matches the kubelet's summary of all volumes of a pod, which is less
// specific than the Event of a single volume.
var allVolumes = regexp.MustCompile(`^Unable to attach or mount volumes`)

// mountFindings returns why the containers have not started: volumes first, then the
// sandbox.
func (s *podView) mountFindings() []finding {
	if ready := condition(s.pod, corev1.PodReadyToStartContainers); ready != nil && ready.Status == corev1.ConditionTrue {
		return nil
	}
	past := latest(s.events, "Pulling", "Pulled", "Created", "Started")
	var found []finding
	for _, e := range lastPerVolume(recent(s.events, "FailedAttachVolume")) {
		if !past.isAfter(e.LastSeen) && !latest(s.events, "SuccessfulAttachVolume").isAfter(e.LastSeen) {
			found = append(found, finding{cause: s.volumeCause(ReasonFailedAttachVolume, e)})
		}
	}
	for _, e := range lastPerVolume(recent(s.events, "FailedMount", "FailedMapVolume")) {
		if !past.isAfter(e.LastSeen) {
			found = append(found, finding{cause: s.volumeCause(ReasonFailedMount, e)})
		}
	}
	if e := latest(s.events, "FailedCreatePodSandBox", "FailedPrepareDynamicResources"); e != nil {
		found = append(found, finding{cause: s.cause(ReasonCreateContainerError, explanation{
			message: "the node cannot prepare the pod: " + excerpt(lowerFirst(stripNoise(e.Note))),
			advice:  "wait; if the problem persists, ask the cluster's administrator", transient: true,
		}).withEvent(e)})
	}
	return found
}

func (s *podView) volumeCause(reason string, e *Event) Cause {
	r := matchOr(mountRules, stripNoise(e.Note), "check the pod's volumes")
	r.message = strings.Replace(r.message, `volume ""`, "a volume", 1)
	return s.cause(reason, r).withEvent(e)
}

var volumeName = regexp.MustCompile(namesVolume)

// lastPerVolume returns the last Event of each volume. The summary of all volumes counts
// only if there is no Event of a single volume.
func lastPerVolume(events []Event) []*Event {
	last := map[string]*Event{}
	for i := range events {
		name := ""
		if m := volumeName.FindStringSubmatch(events[i].Note); m != nil && !allVolumes.MatchString(events[i].Note) {
			name = m[1]
		}
		last[name] = &events[i]
	}
	if len(last) > 1 {
		delete(last, "")
	}
	return slices.Collect(maps.Values(last))
}
