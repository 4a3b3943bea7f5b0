package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// State is how an object fares.
type State string

// The states.
const (
	// Running: it does what is asked of it.
	Running State = "Running"
	// Waiting: it does not yet, and nothing is known to be wrong.
	Waiting State = "Waiting"
	// Failing: it does not, and the cause is known.
	Failing State = "Failing"
	// Stopped: it is not asked to run.
	Stopped State = "Stopped"
	// Completed: it has ended, and well.
	Completed State = "Completed"
	// Unknown: too little of it could be read.
	Unknown State = "Unknown"
)

// Explanation is what is found out about an object. It is also the form of
// `bongsu explain -o json`: fields are added, never changed.
type Explanation struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Summary is a sentence about the state.
	Summary string `json:"summary"`
	// Cause is why it does not run, or, of one whose state is Unknown, maybe did not;
	// Others are what else is wrong, in order.
	Cause  *Cause  `json:"cause,omitempty"`
	Others []Cause `json:"others,omitempty"`
	// Log is the end of what the container wrote that failed.
	Log *Log `json:"log,omitempty"`
	// LastCrash is how a container last ended that runs again.
	LastCrash *Cause `json:"lastCrash,omitempty"`
	// Conditions and LastFailure are those of an object of ours.
	Conditions  []metav1.Condition    `json:"conditions,omitempty"`
	LastFailure *v1alpha1.LastFailure `json:"lastFailure,omitempty"`
	// PodStatuses are the pods of an AppService that are not healthy by its health
	// check, as its status lists them.
	PodStatuses []v1alpha1.PodStatus `json:"podStatuses,omitempty"`
	// Deletion is what the deletion of an AppService waits for.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Unread is what could not be read, and why.
	Unread []Unread `json:"unread,omitempty"`
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
	// Message says what is wrong, Advice what to do.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Passing says that waiting may help.
	Passing bool `json:"passing"`
	// Time is when it last happened, Count how often.
	Time  *time.Time `json:"time,omitempty"`
	Count int32      `json:"count"`
}

// Log is the end of a container's log.
type Log struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Previous says that the container runs again: the lines are of before.
	Previous bool     `json:"previous"`
	Lines    []string `json:"lines"`
}

// Deletion is why an object that is being deleted is still there.
type Deletion struct {
	// WaitsFor says what for, Release how to have the deletion go on without.
	WaitsFor string `json:"waitsFor"`
	Release  string `json:"release,omitempty"`
	// Backup is that of the status.
	Backup *v1alpha1.BackupStatus `json:"backup,omitempty"`
}

// Unread is something that could not be read.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func causeOf(c *diagnosis.Cause) *Cause {
	if c == nil {
		return nil
	}
	told := &Cause{
		Reason: c.Reason, Object: Object(c.Object), Container: c.Container, ExitCode: c.ExitCode,
		Message: c.Message, Advice: c.Advice, Passing: c.Transient, Count: c.Count,
	}
	if !c.Time.IsZero() {
		at := c.Time.UTC()
		told.Time = &at
	}
	return told
}
