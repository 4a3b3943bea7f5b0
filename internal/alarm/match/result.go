package match

import "github.com/bongsu-io/bongsu/internal/alarm"

// Outcome is the result of evaluating an alarm for an occurrence.
type Outcome int

const (
	// NotMatched: the alarm does not match the occurrence.
	NotMatched Outcome = iota
	// Unresolved: the alarm needs an object that is gone.
	Unresolved
	// Failed: an expression failed; see Result.Err.
	Failed
	// Undecided: the alarm needs data that could not be read, and may be read later; see
	// Result.Unread.
	Undecided
	// Matched: the alarm matches the occurrence.
	Matched
)

// Result is the outcome of one alarm for one occurrence.
type Result struct {
	Outcome Outcome
	// Resolves is true if the occurrence matched spec.resolve.match. It then only resolves its
	// group.
	Resolves bool
	// Err is the first runtime failure of an expression. It names the field. It can be
	// set together with Matched, if another entry matched. If the context was cancelled,
	// Err wraps its cause and the outcome means nothing.
	Err error
	// Unread says why the outcome is Undecided.
	Unread alarm.Unread
	// Note describes the change that matched. It is empty for Events.
	Note string
}
