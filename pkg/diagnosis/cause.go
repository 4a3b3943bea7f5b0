package diagnosis

import "time"

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
