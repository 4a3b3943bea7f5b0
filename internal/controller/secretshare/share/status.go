package share

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// maxListedCopies limits each list of copies in the status of a grant.
	maxListedCopies = 50
	// MaxMessage limits the message about a copy in a status, in bytes.
	MaxMessage = 500
	// UpToDate is the message of a rule or a grant without a problem.
	UpToDate = "all copies are up to date"
)

// SetCopies sets the counts and lists in the status of a grant.
func SetCopies(s *v1alpha1.SecretShareGrantStatus, copies []Granted) {
	s.Synced, s.Waiting, s.SyncedCopies, s.WaitingCopies = 0, 0, nil, nil
	for _, c := range copies {
		if c.Problem.Reason == "" {
			s.Synced++
			if len(s.SyncedCopies) < maxListedCopies {
				s.SyncedCopies = append(s.SyncedCopies, c.GrantedCopy)
			}
			continue
		}
		s.Waiting++
		if len(s.WaitingCopies) < maxListedCopies {
			s.WaitingCopies = append(s.WaitingCopies, v1alpha1.WaitingCopy{
				GrantedCopy: c.GrantedCopy, Reason: c.Problem.Reason, Message: plaintext.Cut(c.Problem.Message, MaxMessage),
			})
		}
	}
}

// GrantCondition returns the Ready condition of a grant with a status that SetCopies set. Copies that
// the owner of the grant or of the SecretShare has excluded do not make it False. recreated are
// namespaces that were deleted and created again. exceeds is a namespace in spec.from to which the
// grants of the namespace would allow too many names, or empty.
func GrantCondition(s *v1alpha1.SecretShareGrantStatus, copies []Granted, recreated []string, exceeds string) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: UpToDate,
	}
	if s.Synced == 0 {
		c.Reason, c.Message = v1alpha1.ReasonUnused, "no SecretShare of the namespaces in spec.from has written a copy that the grant allows"
	}
	if len(recreated) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonSourceRecreated
		c.Message = fmt.Sprintf("namespace %s was deleted and created again, so its SecretShares cannot write here: check who owns it, then delete this grant and create it again", recreated[0])
		return c
	}
	if exceeds != "" {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonOverBudget
		c.Message = fmt.Sprintf("this grant and older ones list more than %d names for namespace %s, so some names are not allowed: use globs in spec.to",
			MaxGrantedNames, exceeds)
		return c
	}
	for _, found := range copies {
		switch found.Problem.Reason {
		case "", v1alpha1.ReasonNotGranted, v1alpha1.ReasonSuspended:
		default:
			c.Status, c.Reason = metav1.ConditionFalse, found.Problem.Reason
			c.Message = fmt.Sprintf("%d copies are not up to date; Secret %s of SecretShare %s: %s",
				s.Waiting, found.Name, found.SecretShare, found.Problem.Message)
			return c
		}
	}
	return c
}

// SharedNote names the rules that own copies of another rule, as the end of a message, by the number
// of copies. It is empty if there are none.
func SharedNote(shared map[string]int) string {
	var owners []string
	total := 0
	for owner, n := range shared {
		owners = append(owners, owner)
		total += n
	}
	if total == 0 {
		return ""
	}
	slices.Sort(owners)
	note := fmt.Sprintf("; %s of them written by %s", countOfCopies(total), strings.Join(owners[:min(len(owners), maxNamed)], ", "))
	if more := len(owners) - maxNamed; more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	return note + ", which wants the same"
}

// maxNamed limits how many namespaces a condition names besides the first one.
const maxNamed = 3

// CopiesProblem returns the first problem of the copies of a rule, from its status. pending means
// that some namespaces are not synced yet, failing are the names of those with a problem.
func CopiesProblem(s *v1alpha1.SecretShareStatus, pending bool, failing []string) Problem {
	switch {
	case len(s.Failing) > 0:
		first := s.Failing[0]
		message := fmt.Sprintf("%d of %d copies are up to date; namespace %s: %s", s.Synced, s.Desired, first.Namespace, first.Message)
		if others := failing[1:]; len(others) > 0 {
			message += "; also failing: " + strings.Join(others[:min(len(others), maxNamed)], ", ")
			if more := len(others) - maxNamed; more > 0 {
				message += fmt.Sprintf(" and %d more", more)
			}
		}
		return Problem{Reason: first.Reason, Message: message}
	case pending || s.Synced < s.Desired:
		return Problem{Reason: v1alpha1.ReasonCopying, Message: "copies are being written"}
	}
	return Problem{}
}
