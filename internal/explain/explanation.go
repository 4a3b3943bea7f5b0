package explain

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// State is the state of an explained object.
type State string

// The states.
const (
	// Running: the object runs as specified, or shows no problem.
	Running State = "Running"
	// Waiting: the object does not run yet, and no problem is known.
	Waiting State = "Waiting"
	// Failing: the object does not run as specified, and the cause is known.
	Failing State = "Failing"
	// Stopped: the object is suspended, scaled to 0, unused or being deleted.
	Stopped State = "Stopped"
	// Completed: the object has ended successfully.
	Completed State = "Completed"
	// Unknown: the user may not read the object, or its status follows no known convention.
	Unknown State = "Unknown"
)

// Explanation is the result for an object, and the output of `bongsu explain -o json`.
// Its fields may be extended, but never changed.
type Explanation struct {
	Kind string `json:"kind"`
	// Namespace is empty for objects that belong to no namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Summary is a sentence about the state.
	Summary string `json:"summary"`
	// LateAfter is until when it is normal that the object waits. After that, the wait is a problem.
	LateAfter *time.Time `json:"lateAfter,omitempty"`
	// Cause is why the object does not run. If State is Unknown, it is a possible cause.
	Cause *Cause `json:"cause,omitempty"`
	// Chain are the objects from the explained one to the root of its problem, which Cause is about.
	// It is empty if the cause lies in the object itself or in what belongs to it.
	Chain []Link `json:"chain,omitempty"`
	// Others are further problems, the most important first.
	Others []Cause `json:"others,omitempty"`
	// Log is the end of the log of the container that failed, or the errors in that of one that runs.
	Log *Log `json:"log,omitempty"`
	// LastCrash is the last crash of a container that runs again.
	LastCrash *Cause `json:"lastCrash,omitempty"`
	// Conditions come from the status of a Jupyter, an AppService, a node, or an object of a
	// type without rules of its own. LastFailure comes from a Jupyter or AppService.
	Conditions  []metav1.Condition    `json:"conditions,omitempty"`
	LastFailure *v1alpha1.LastFailure `json:"lastFailure,omitempty"`
	// PodStatuses come from the status of an AppService: the pods that its health check
	// does not find healthy.
	PodStatuses []v1alpha1.PodStatus `json:"podStatuses,omitempty"`
	// Deletion explains why the deletion of an AppService waits.
	Deletion *Deletion `json:"deletion,omitempty"`
	// NotChecked lists what could not be read, or was not.
	NotChecked []NotChecked `json:"notChecked,omitempty"`

	// own is what was known of the object before the root of its problem, and ownTime when it last occurred. They are
	// empty if there is no chain.
	own     string
	ownTime *time.Time
	// partial is true if a part of the object runs.
	partial bool
	// passive is true for an object that runs no containers, such as a Service.
	passive bool
}

// Object names an object.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Cause is why an object does not run.
type Cause struct {
	Reason    string `json:"reason"`
	Object    Object `json:"object"`
	Container string `json:"container,omitempty"`
	ExitCode  *int32 `json:"exitCode,omitempty"`
	// Node has the problem, if it is set. Other pods on it can have the same problem.
	Node string `json:"node,omitempty"`
	// Message says what is wrong, Advice what to do. If there are several problems of a kind, such as
	// wrong fields, Items has a line for each.
	Message string   `json:"message"`
	Items   []string `json:"items,omitempty"`
	Advice  string   `json:"advice,omitempty"`
	// Passing is true if the problem may disappear by itself.
	Passing bool `json:"passing"`
	// Time is the last occurrence, Count the number of occurrences.
	Time  *time.Time `json:"time,omitempty"`
	Count int32      `json:"count"`

	// root identifies the problem at the end of a chain, and alone is its message. They are empty if there is no
	// chain.
	root, alone string
}

// add adds a detail to the cause that its own text leaves out, and what to do because of it. Without an advice, that of the
// cause stays. It does nothing if there is no cause, or if the cause has the detail.
func (c *Cause) add(detail, advice string) {
	if c == nil || strings.Contains(c.Message, detail) {
		return
	}
	c.Message = shortLine(c.Message + "; " + detail)
	if advice != "" {
		c.Advice, c.Passing = advice, false
	}
}

// Log is the end of a container's log.
type Log struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Previous is true if the lines are from before the container's last restart.
	Previous bool     `json:"previous"`
	Lines    []string `json:"lines"`
	// Errors is how many of the last Read lines report an error, if the container runs. Then, Lines are those that say
	// different things. Both are 0 otherwise.
	Errors int `json:"errors,omitempty"`
	Read   int `json:"read,omitempty"`

	// whole are the lines before long ones were cut. References are looked for in these.
	whole []string
	// failures are the errors of a container that runs, as it wrote them.
	failures []string
}

// Deletion is why an object that is being deleted is still there.
type Deletion struct {
	// WaitsFor says what the deletion waits for. Release is the command that deletes the
	// object without a backup.
	WaitsFor string `json:"waitsFor"`
	Release  string `json:"release,omitempty"`
	// Backup comes from the status.
	Backup *v1alpha1.BackupStatus `json:"backup,omitempty"`
}

// NotChecked is an object or a list that could not be read, or was not: a chain has a limit.
type NotChecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// diagnosis returns the texts of a cause.
func (c *Cause) diagnosis() *diagnosis.Cause {
	return &diagnosis.Cause{Message: c.Message, Items: c.Items, Advice: c.Advice}
}

func causeOf(c *diagnosis.Cause) *Cause {
	if c == nil {
		return nil
	}
	cause := &Cause{
		Reason: c.Reason, Object: Object(c.Object), Container: c.Container, ExitCode: c.ExitCode, Node: c.Node,
		Message: c.Message, Items: c.Items, Advice: c.Advice, Passing: c.Transient, Count: c.Count,
	}
	if !c.Time.IsZero() {
		at := c.Time.UTC()
		cause.Time = &at
	}
	return cause
}
