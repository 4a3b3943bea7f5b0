package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podControllers are the kinds whose controllers emit FailedCreate for pods, claims and Jobs, and
// FailedDelete for pods and Jobs.
var podControllers = []string{"CronJob", "DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}

// FromEvent returns the cause that an Event itself contains, or nil. It needs no other object.
// The Event is a Warning, or that of a CronJob that starts no Job while another one runs.
//
// FromEvent explains failures to create or delete ReplicaSets, pods and Jobs, claims without a
// volume, and volumes that cannot be resized or modified. It explains pods that do not end or do
// not get new resources in place, and missing imagePullSecrets. HorizontalPodAutoscalers, Jobs
// that exceed their deadline, and the schedules of CronJobs are explained, too. Some Events of
// budgets and nodes have rules of their own.
//
// What had already happened for long when the Event last occurred is late, see [Cause.LateAdvice].
func FromEvent(e Event) *Cause {
	cause := fromEvent(e)
	if cause != nil {
		cause.endWait(e.LastSeen)
	}
	return cause
}

func fromEvent(e Event) *Cause {
	switch {
	case e.Type != corev1.EventTypeWarning && e.Reason != jobAlreadyActive:
		return nil
	case e.Regarding.Kind == kindAutoscaler:
		return fromScalingEvent(e)
	case e.Regarding.Kind == kindClaim && (e.Reason == "ProvisioningFailed" || e.Reason == "VolumeMismatch"):
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: e.Regarding.Name, UID: e.UID}}
		return Diagnose(Workload{Events: []Event{e}, Claims: []*corev1.PersistentVolumeClaim{claim}}).Cause
	case e.Regarding.Kind == kindClaim && claimFailures[e.Reason] != "":
		cause := resizeCause(e.Reason, e.Regarding, fmt.Sprintf("claim %q %s", e.Regarding.Name, claimFailures[e.Reason]), e.Note).withEvent(&e)
		return &cause
	case e.Regarding.Kind == kindPod && slices.Contains(resizeReasons, e.Reason):
		what := "a volume of the pod cannot be resized"
		if m := volumeName.FindStringSubmatch(e.Note); m != nil {
			what = fmt.Sprintf("volume %q of the pod cannot be resized", m[1])
		}
		cause := resizeCause(e.Reason, e.Regarding, what, e.Note).withEvent(&e)
		return &cause
	case e.Regarding.Kind == kindPod && podEvents[e.Reason] != nil:
		return podEvents[e.Reason](e)
	case e.Regarding.Kind == "Job" && e.Reason == batchv1.JobReasonDeadlineExceeded:
		cause := (&Cause{Reason: e.Reason, Object: e.Regarding, Message: "the Job ran longer than its activeDeadlineSeconds", Advice: deadlineAdvice}).withEvent(&e)
		return &cause
	case e.Reason == "FailedCreate" && slices.Contains(podControllers, e.Regarding.Kind):
		return Diagnose(Workload{Events: []Event{e}}).Cause
	case e.Reason == ReasonFailedDelete && slices.Contains(podControllers, e.Regarding.Kind):
		cause := deletionFailure(e.Regarding, e.Note).withEvent(&e)
		cause.sanitize()
		return &cause
	case e.Regarding.Kind == "Deployment" && e.Reason == replicaSetCreateError:
		cause := FromCreateFailure(e.Regarding, e.Note).withEvent(&e)
		return &cause
	case e.Regarding.Kind == "CronJob":
		return fromScheduleEvent(e)
	}
	return fromEventRules(e)
}

// claimFailures are what Events of a claim with these reasons mean.
var claimFailures = map[string]string{
	ReasonVolumeResizeFailed:     "cannot be resized",
	ReasonFileSystemResizeFailed: "cannot be resized",
	volumeModifyFailed:           "cannot get its VolumeAttributesClass",
}

// podEvents explain Events of a pod, by their reasons. Those about resources that are changed in
// place are of kubernetes/pkg/kubelet/allocation/allocation_manager.go and
// kubernetes/pkg/kubelet/kubelet.go.
var podEvents = map[string]func(Event) *Cause{
	failedKillPod:      fromKillEvent,
	failedPullSecret:   fromPullSecretEvent,
	"ResizeDeferred":   fromInPlaceResize,
	"ResizeInfeasible": fromInPlaceResize,
	"ResizeError":      fromInPlaceResize,
}

// fromKillEvent explains why a node cannot end a pod.
func fromKillEvent(e Event) *Cause {
	cause := (&Cause{
		Reason: ReasonTerminating, Object: e.Regarding, Message: "the node cannot end the pod: " + killText(&e), Advice: administratorLater, LateAdvice: administrator, Transient: true,
	}).withEvent(&e)
	cause.sanitize()
	return &cause
}

// fromPullSecretEvent explains an Event about Secrets that imagePullSecrets names.
func fromPullSecretEvent(e Event) *Cause {
	r := pullSecretText(e.Note)
	if r.message == "" {
		return nil
	}
	cause := (&Cause{
		Reason: e.Reason, Object: e.Regarding, Message: r.message, Advice: r.advice + "; an image that needs no credentials is pulled nevertheless",
	}).withEvent(&e)
	cause.sanitize()
	return &cause
}

// inPlaceError matches the error in the note of such an Event.
var inPlaceError = compile(`"error":"((?:[^"\\]|\\.)*)"\}$`)

// scheduleAgain is how a pod gets resources that its node does not have.
const scheduleAgain = "delete the pod, so that it is scheduled again"

// fromInPlaceResize explains why a pod does not get its new resources. It runs with the former ones.
func fromInPlaceResize(e Event) *Cause {
	why := e.Note
	if m := inPlaceError.FindStringSubmatch(line(e.Note, maxRead)); m != nil {
		why = strings.ReplaceAll(m[1], `\"`, `"`)
	}
	cause := Cause{Reason: e.Reason, Object: e.Regarding, Message: "the pod does not get its new resources: " + usefulEnd(stripNoise(why))}
	switch e.Reason {
	case "ResizeDeferred":
		cause.Message, cause.Transient = strings.Replace(cause.Message, "resources:", "resources yet:", 1), true
		cause.Advice, cause.LateAdvice = "wait until its node has more, or "+scheduleAgain, scheduleAgain
	case "ResizeInfeasible":
		cause.Advice = "set resources that its node can give, or " + scheduleAgain
	default:
		cause.Advice = "if it lowers a memory limit, set it above what the container uses; otherwise delete the pod, so that it starts with the new resources"
	}
	cause = cause.withEvent(&e)
	cause.sanitize()
	return &cause
}

// budgetRules explain the Events of kubernetes/pkg/controller/disruption/disruption.go.
var budgetRules = []rule{
	{name: "budget-controller-not-found", problem: lasting,
		text:    compile(`found no controllers? for pod ("[^"]+")`),
		message: "it selects pod ${1}, whose controller does not exist, so that the number of expected pods is unknown",
		advice:  "delete the pod, or set minAvailable to a number; until then, no pod can be evicted"},
}

// unmanagedRules explain another Event of the same file.
var unmanagedRules = []rule{
	{name: "budget-unmanaged-pods", problem: lasting,
		text:    compile(`were found to be unmanaged`),
		message: "it selects pods that no controller manages, so that the number of expected pods is unknown",
		advice:  "set minAvailable to a number, or correct spec.selector so that it does not select these pods"},
}

// sharedPodRules explain the Event of the same file about a pod. See
// kubernetes/pkg/registry/core/pod/storage/eviction.go for the effect.
var sharedPodRules = []rule{
	{name: "several-budgets", problem: lasting,
		text:    compile(`matches multiple PodDisruptionBudgets`),
		message: "more than one PodDisruptionBudget selects the pod, so that it cannot be evicted",
		advice:  "change their selectors so that one of them selects the pod"},
}

// diskRules explain the Events of kubernetes/pkg/kubelet/images/image_gc_manager.go.
var diskRules = []rule{
	{name: "image-filesystem-almost-full", problem: lasting,
		text:    compile(`^Insufficient free disk space on the node's image filesystem \(([^)]*)\)`),
		message: "its file system for images is almost full (${1}), and deleting unused images does not free enough",
		advice:  "find out what uses the space (images, logs or volumes), or enlarge the disk; otherwise, pods are evicted"},
}

// lostClaimRules explain two Events of kubernetes/pkg/controller/volume/persistentvolume/pv_controller.go.
var lostClaimRules = []rule{
	{name: "claim-lost", problem: lasting,
		text:    compile(`has lost (?:its|reference to) PersistentVolume`),
		message: "its PersistentVolume no longer exists",
		advice:  restoreVolume},
	{name: "claim-misbound", problem: lasting,
		text:    compile(`Two claims are bound to the same volume`),
		message: "another claim is bound to its PersistentVolume",
		advice:  "use another claim; if the volume should be that of this one, ask the cluster's administrator"},
}

// eventRules are the rules for Events about an object of a kind, with a reason.
var eventRules = map[[2]string][]rule{
	{kindBudget, "CalculateExpectedPodCountFailed"}: budgetRules,
	{kindClaim, ReasonClaimLost}:                    lostClaimRules,
	{kindClaim, "ClaimMisbound"}:                    lostClaimRules,
	{kindBudget, "UnmanagedPods"}:                   unmanagedRules,
	{kindPod, "MultiplePodDisruptionBudgets"}:       sharedPodRules,
	{"Node", "FreeDiskSpaceFailed"}:                 diskRules,
}

// fromEventRules explains an Event that has rules of its own, or quotes it. It returns nil for others.
func fromEventRules(e Event) *Cause {
	rules, ok := eventRules[[2]string{e.Regarding.Kind, e.Reason}]
	if !ok {
		return nil
	}
	r, ok := match(rules, stripNoise(e.Note))
	if !ok {
		r = retried(usefulEnd(stripNoise(e.Note)))
		r.transient = false
	}
	cause := Cause{Reason: e.Reason, Object: e.Regarding, Message: r.message, Advice: r.advice, LateAdvice: r.late, Transient: r.transient}.withEvent(&e)
	cause.sanitize()
	return &cause
}

// jobAlreadyActive is the reason of a Normal Event.
const jobAlreadyActive = "JobAlreadyActive"

// scheduleRules explain the Warnings of kubernetes/pkg/controller/cronjob (utils.go and
// cronjob_controllerv2.go) about a schedule, by their reasons. An empty message quotes the note.
var scheduleRules = map[string]explanation{
	"TooManyMissedTimes": {message: "the CronJob missed more than 100 start times, and starts a Job only for the last of them",
		advice: "set or lower spec.startingDeadlineSeconds; if it was not suspended, ask the cluster's administrator to check the control plane and its clock", transient: true},
	"MissSchedule": {message: "the CronJob did not start a Job, because spec.startingDeadlineSeconds had passed since its start time",
		advice: "raise spec.startingDeadlineSeconds; if it was not suspended, ask the cluster's administrator to check the control plane and its clock", transient: true},
	jobAlreadyActive: {message: "the CronJob starts no Job while the one before runs, because concurrencyPolicy is Forbid",
		advice: "wait, or find out why that Job does not end", late: "find out why that Job does not end", transient: true},
	"UnknownTimeZone":     {advice: "correct spec.timeZone"},
	"UnparseableSchedule": {advice: "correct spec.schedule"},
	"InvalidSchedule":     {advice: "correct spec.schedule"},
}

// fromScheduleEvent explains an Event of the controller of CronJobs about the schedule, or
// returns nil.
func fromScheduleEvent(e Event) *Cause {
	r, ok := scheduleRules[e.Reason]
	if !ok {
		return nil
	}
	if r.message == "" {
		r.message = "the CronJob starts no Jobs: " + excerpt(stripNoise(e.Note))
	}
	cause := Cause{Reason: e.Reason, Object: e.Regarding, Message: r.message, Advice: r.advice, LateAdvice: r.late, Transient: r.transient}.withEvent(&e)
	cause.sanitize()
	return &cause
}

const deadlineAdvice = "raise activeDeadlineSeconds, or reduce the work of the Job"

// fromScalingEvent explains an Event of the controller of HorizontalPodAutoscalers. It
// returns nil for an unknown note, because that says nothing more than the Event.
func fromScalingEvent(e Event) *Cause {
	cause, ok := scalingRule(e.Note)
	if !ok {
		return nil
	}
	cause.Reason, cause.Object = e.Reason, e.Regarding
	cause = cause.withEvent(&e)
	cause.sanitize()
	return &cause
}
