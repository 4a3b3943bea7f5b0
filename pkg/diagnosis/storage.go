package diagnosis

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

var provisioningRules = []rule{
	{regexp.MustCompile(`(?:storageclass[\w.]*|StorageClass) "([^"]+)" not found`),
		`StorageClass "${1}" does not exist`, "name another one (kubectl get storageclass lists them)", false},
	{regexp.MustCompile(`(?i)exceeded quota`),
		"a quota of the storage has no room", "ask for less, or remove volumes that nobody needs", true},
	{regexp.MustCompile(`(?i)insufficient|no space|out of space|not enough`),
		"the storage has no room", "ask for less, or wait until there is more", true},
	{regexp.MustCompile(`(?i)not supported|invalid`),
		"the storage cannot make such a volume", "check accessModes, volumeMode and size of the claim", false},
	{regexp.MustCompile(`(?i)deadline exceeded|timed? ?out|unavailable|connection refused`),
		"the storage does not answer", "wait; if it lasts, ask whoever runs the cluster", true},
}

// storage returns what is wrong with the claims.
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
		cause.Message = fmt.Sprintf("the volume of claim %q is gone", c.Name)
		cause.Advice = "restore it from a backup under the volume's name, or delete the claim and begin anew"
		return cause, true
	}
	return v.pendingClaim(c, cause)
}

// pending is a claim without a volume. That it waits for a pod to be scheduled, or
// for a moment, is no cause.
func (v *view) pendingClaim(c *corev1.PersistentVolumeClaim, cause Cause) (Cause, bool) {
	events := v.eventsFor(Object{kindClaim, c.Name}, c.UID)
	waits := latest(events, "WaitForFirstConsumer", "WaitForPodScheduled")
	if failed := latest(events, "ProvisioningFailed"); failed != nil && !waits.isAfter(failed.LastSeen) {
		r := matchOr(provisioningRules, stripNoise(failed.Note), "check the claim; if it is right, ask whoever runs the cluster")
		cause.Reason = ReasonProvisioningFailed
		cause.Message = fmt.Sprintf("no volume can be made for claim %q: %s", c.Name, r.message)
		cause.Advice, cause.Transient = r.advice, r.transient
		return cause.withEvent(failed), true
	}
	cause.Reason, cause.Transient = ReasonClaimPending, true
	cause.Message = fmt.Sprintf("claim %q waits for a volume", c.Name)
	if failed := latest(events, "FailedBinding", "VolumeMismatch"); failed != nil && !waits.isAfter(failed.LastSeen) {
		cause.Message += ": " + excerpt(lowerFirst(stripNoise(failed.Note)))
		cause.Advice = "name a StorageClass, or have a PersistentVolume made that fits"
		return cause.withEvent(failed), true
	}
	if external := latest(events, "ExternalProvisioning"); external != nil {
		cause.Advice = "its provisioner has not made one yet; if it lasts, ask whoever runs the cluster"
		return cause, true
	}
	cause.Advice = "nothing says why; ask whoever runs the cluster"
	return cause, waits == nil && v.blocksScheduling(c.Name)
}

var (
	unboundClaims = regexp.MustCompile(`unbound immediate PersistentVolumeClaims`)
	claimNotFound = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
)

// waitedFor tells whether the scheduler waits for the claim to be bound.
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

// claimTrouble reads what the scheduler says of claims. Where the claim tells more
// itself, the scheduler's word adds nothing.
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
	cause.Advice = "its Events say why (kubectl describe pvc)"
	return []finding{{cause: *cause}}, true
}

// ClaimNotFound is the cause of a pod that mounts a claim which does not exist.
func ClaimNotFound(name string) Cause {
	return Cause{
		Reason: ReasonClaimNotFound, Object: Object{kindClaim, name}, Count: 1,
		Message: fmt.Sprintf("claim %q, which the pod mounts, does not exist", name), Advice: "create it, or correct its name",
	}
}
