package diagnosis

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Object names an object of the workload's namespace, or one that has none.
type Object struct{ Kind, Name string }

// Event is what is read of an Event.
type Event struct {
	Type, Reason, Note string
	Regarding          Object
	// UID of the regarding object, or empty. An Event of an earlier object of the
	// same name tells nothing of the one that there is.
	UID types.UID
	// FieldPath is the part of the object, such as spec.containers{notebook}.
	FieldPath string
	// LastSeen is when it last occurred; zero if it does not say.
	LastSeen time.Time
	// Count is how often it has occurred, at least 1.
	Count int64
}

// telling are the reasons of Normal Events that the diagnosis reads.
var relevantNormal = map[string]bool{
	"BackOff": true, "Created": true, "ExternalProvisioning": true, "FailedBinding": true, "Killing": true, "Pulled": true,
	"Pulling": true, "Started": true, "SuccessfulAttachVolume": true, "WaitForFirstConsumer": true, "WaitForPodScheduled": true,
}

// Reads tells whether Events of the type and reason are read. Of Warnings, all may be.
func IsRelevant(eventType, reason string) bool {
	return eventType == corev1.EventTypeWarning || eventType == corev1.EventTypeNormal && relevantNormal[reason]
}

// Nodes sums up the nodes of the cluster.
type Nodes struct {
	// Total is how many there are.
	Total int
	// CPU and Memory are those of the node that has most of each.
	CPU, Memory resource.Quantity
}

// Workload is what is known of something that runs pods. Only what is its own may
// be in it: whoever collects it has checked who controls what.
type Workload struct {
	Pods   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	Quotas []*corev1.ResourceQuota
	// Controllers are the UIDs of what makes the pods; nil: not known. An Event of an
	// earlier one of the name is not believed.
	Controllers []types.UID
	// Nodes may be nil: not known.
	Nodes *Nodes
	// Events that regard the workload, its controller, pods or claims.
	Events []Event
	// Known are causes that whoever asks has found already: a refusal of the API
	// server, an invalid field, a condition of a Deployment.
	Known []Cause
}
