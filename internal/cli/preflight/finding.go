// Package preflight evaluates whether a cluster can run Bongsu and whether an installation
// is healthy. Each finding is one sentence that says what to do. The package is pure: its
// caller reads the cluster.
package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	// OK: nothing is to be done.
	OK Level = "ok"
	// Warn: something is to be known, or could not be found out.
	Warn Level = "warn"
	// Fail: something does not work, or will not.
	Fail Level = "fail"
)

// Finding is the answer to one question.
type Finding struct {
	// Check names the question, for example "admission policies".
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Message is a sentence; of what is not OK it says what to do.
	Message string `json:"message"`
}

// Failed returns how many findings are failures.
func Failed(findings []Finding) (n int) {
	for _, f := range findings {
		if f.Level == Fail {
			n++
		}
	}
	return n
}

// Unknown is the finding of a question to which there was no answer.
func Unknown(check string, err error) Finding {
	return Finding{check, Warn, fmt.Sprintf("could not be found out: %v", err)}
}

// maxNamed is how many objects a message names.
const maxNamed = 5

// list names the first of many.
func list(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
