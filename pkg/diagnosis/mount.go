package diagnosis

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eventLag is how much later than what it tells of an Event may be written.
const maxEventDelay = time.Minute

// What a text says of the volume that it is about, and a text that may say it.
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
		`volume "${1}" cannot be mounted: there is no key "${3}" in what it is made of`, "add the key, or correct its name", false},
	{regexp.MustCompile(mayNameVolume + `.*failed to sync (\w+) cache`),
		`volume "${1}" cannot be mounted yet: the node has not read the ${2}`, "wait", true},
	{regexp.MustCompile(mayNameVolume + `.*hostPath type check failed: (\S+) is not a (\w+)`),
		`volume "${1}" cannot be mounted: ${2} of the node is not a ${3}`, "correct the path, or use another kind of volume", false},
	{regexp.MustCompile(`Multi-Attach error ` + namesVolume),
		`volume "${1}" cannot be attached: it is attached to another node`, "wait until the pod that uses it there has ended, or stop it", true},
	{regexp.MustCompile(`(?:AttachVolume\.\w+|attach) failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be attached to the node: ${2}`, "wait; if it lasts, ask whoever runs the cluster", true},
	{regexp.MustCompile(`(?:MountVolume|MapVolume)\.\w+ failed ` + namesVolume + ` ?: ?(.*)`),
		`volume "${1}" cannot be mounted: ${2}`, "check the volume; if it is right, ask whoever runs the cluster", true},
	{regexp.MustCompile(`unmounted volumes=\[([^\]]+)\]`),
		"volumes cannot be mounted in time: ${1}", "wait; if it lasts, ask whoever runs the cluster", true},
}

// overall is the kubelet's word on all of a pod's volumes, which tells less than
// that on the one.
var allVolumes = regexp.MustCompile(`^Unable to attach or mount volumes`)

// mounting is a pod whose containers have not been started: what its volumes, and
// then what its sandbox lacks.
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
			advice:  "wait; if it lasts, ask whoever runs the cluster", transient: true,
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

// perVolume returns the last Event of each volume; of all volumes together, if there
// is none of a single one.
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
