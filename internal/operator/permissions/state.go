package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// state contains the permissions that are not known to be granted.
type state struct {
	// missing are the refused permissions, unknown those without an answer so far.
	missing, unknown []Permission
	// err is the error that ended the last round early.
	err error
}

// open returns the permissions to check.
func (s state) open() []Permission { return slices.Concat(s.missing, s.unknown) }

// after returns the state after a check of open. A missing permission without an answer is
// still missing.
func (s state) after(results []result, err error) state {
	next := state{err: err}
	for i, p := range s.open() {
		switch {
		case results[i] == granted:
		case results[i] == refused || i < len(s.missing):
			next.missing = append(next.missing, p)
		default:
			next.unknown = append(next.unknown, p)
		}
	}
	return next
}

// problem returns an error that names missing and unknown permissions, or nil.
func (s state) problem() error {
	problems := describe(s.missing)
	switch n := len(s.unknown); {
	case n > 0 && s.err == nil:
		problems = append(problems, "the permissions are not checked yet")
	case n > 0:
		problems = append(problems, fmt.Sprintf("%d permissions are not checked yet: %v", n, s.err))
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// without returns the permissions that are not in others.
func without(permissions, others []Permission) []Permission {
	return slices.DeleteFunc(slices.Clone(permissions), func(p Permission) bool { return slices.Contains(others, p) })
}
