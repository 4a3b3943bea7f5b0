package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// state is what is known of the rights.
type state struct {
	// missing were refused, unknown never answered.
	missing, unknown []Permission
	// err is why the last round ended before all were answered.
	err error
}

// open are the rights to ask for: what was granted is not asked for again.
func (s state) open() []Permission { return slices.Concat(s.missing, s.unknown) }

// after returns what is known when open was asked for. A right that was missing and
// is not answered is missing still.
func (s state) after(verdicts []verdict, err error) state {
	next := state{err: err}
	for i, right := range s.open() {
		switch {
		case verdicts[i] == granted:
		case verdicts[i] == refused || i < len(s.missing):
			next.missing = append(next.missing, right)
		default:
			next.unknown = append(next.unknown, right)
		}
	}
	return next
}

// problem says what is missing or not known; nil is that all rights are there.
func (s state) problem() error {
	problems := describe(s.missing)
	switch n := len(s.unknown); {
	case n > 0 && s.err == nil:
		problems = append(problems, "the rights were not checked yet")
	case n > 0:
		problems = append(problems, fmt.Sprintf("%d rights could not be checked yet: %v", n, s.err))
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// without returns the rights that are not among others.
func without(rights, others []Permission) []Permission {
	return slices.DeleteFunc(slices.Clone(rights), func(r Permission) bool { return slices.Contains(others, r) })
}
