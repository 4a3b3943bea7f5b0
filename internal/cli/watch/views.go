package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// lifecycle tells that an object is on its way out.
var lifecycle = view{
	covers: []pattern{
		parsePattern("metadata deletionTimestamp"),
		parsePattern("metadata deletionGracePeriodSeconds"),
	},
	facts: func(object map[string]any) []fact {
		if field(object, "metadata", "deletionTimestamp") == nil {
			return nil
		}
		return []fact{{what: "deletion", note: "requested"}}
	},
}

// readiness tells how many of how many are ready, as kubectl's column READY does.
var readiness = view{
	covers: []pattern{
		parsePattern("status readyReplicas"),
		parsePattern("status availableReplicas"),
		parsePattern("status unavailableReplicas"),
		parsePattern("status numberReady"),
		parsePattern("status numberAvailable"),
		parsePattern("status numberUnavailable"),
	},
	facts: func(object map[string]any) []fact {
		ready, of, ok := countReady(object)
		if !ok {
			return nil
		}
		return []fact{{what: "ready", value: fmt.Sprintf("%d/%d", ready, of)}}
	},
}

// replicated are the kinds that leave status.readyReplicas out when it is 0.
var replicated = sets.New("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")

func countReady(object map[string]any) (ready, of int64, ok bool) {
	switch kind := text(object, "kind"); {
	case kind == "Pod":
		for _, status := range list(object, "status", "containerStatuses") {
			if s, _ := status.(map[string]any); s["ready"] == true {
				ready++
			}
		}
		return ready, int64(len(list(object, "spec", "containers"))), true
	case kind == "DaemonSet":
		return number(object, "status", "numberReady"), number(object, "status", "desiredNumberScheduled"), true
	case replicated.Has(kind), field(object, "status", "readyReplicas") != nil:
		return number(object, "status", "readyReplicas"), number(object, "spec", "replicas"), true
	}
	return 0, 0, false
}

// conditions tells the conditions that most kinds have, with reason and message.
var conditions = view{
	covers: []pattern{parsePattern("status conditions **")},
	facts: func(object map[string]any) []fact {
		all, wellFormed := byKey(list(object, "status", "conditions"), "type")
		if !wellFormed {
			return nil
		}
		var facts []fact
		for _, key := range slices.Sorted(maps.Keys(all)) {
			c, _ := all[key].(map[string]any)
			facts = append(facts, fact{
				what: text(c, "type"), value: text(c, "status"),
				note: joined(": ", text(c, "reason"), text(c, "message")),
			})
		}
		return facts
	},
}

// containers tells what the containers of a pod do.
var containers = view{
	covers: []pattern{
		parsePattern("status containerStatuses **"),
		parsePattern("status initContainerStatuses **"),
		parsePattern("status ephemeralContainerStatuses **"),
	},
	facts: func(object map[string]any) []fact {
		if text(object, "kind") != "Pod" {
			return nil
		}
		var facts []fact
		var restarts int64
		for _, field := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
			for _, status := range list(object, "status", field) {
				s, _ := status.(map[string]any)
				restarts += number(s, "restartCount")
				facts = append(facts, fact{what: "container " + text(s, "name"), value: stateOf(s)})
			}
		}
		return append(facts, fact{what: "restarts", value: restarts})
	},
}

// stateOf tells a container's state in words: "running", "waiting: ErrImagePull",
// "terminated: OOMKilled, exit code 137".
func stateOf(status map[string]any) string {
	state, _ := status["state"].(map[string]any)
	for _, kind := range []string{"running", "waiting", "terminated"} {
		details, ok := state[kind].(map[string]any)
		if !ok {
			continue
		}
		var exit string
		if code, ok := details["exitCode"].(int64); ok && code != 0 {
			exit = fmt.Sprintf("exit code %d", code)
		}
		return joined(": ", kind, joined(", ", text(details, "reason"), exit))
	}
	return "waiting" // what no state means
}

// joined joins the texts that are not empty.
func joined(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), separator)
}
