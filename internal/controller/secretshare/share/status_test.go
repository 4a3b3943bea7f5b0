package share

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// granted returns a copy that concerns a grant, with the reason why it is not up to date.
func granted(name, reason string) Granted {
	c := Granted{GrantedCopy: v1alpha1.GrantedCopy{Name: name, SecretShare: "data/it"}}
	if reason != "" {
		c.Problem = Problem{reason, "why " + name + " waits"}
	}
	return c
}

func TestGrantCondition(t *testing.T) {
	for name, tc := range map[string]struct {
		copies    []Granted
		recreated []string
		exceeds   string
		status    metav1.ConditionStatus
		reason    string
		message   string // a part
	}{
		"no copies":                          {nil, nil, "", metav1.ConditionTrue, v1alpha1.ReasonUnused, "no SecretShare of the namespaces in spec.from"},
		"copies":                             {[]Granted{granted("a", "")}, nil, "", metav1.ConditionTrue, v1alpha1.ReasonReady, UpToDate},
		"one that the owner excluded":        {[]Granted{granted("a", ""), granted("b", v1alpha1.ReasonNotGranted)}, nil, "", metav1.ConditionTrue, v1alpha1.ReasonReady, UpToDate},
		"one that the author suspended":      {[]Granted{granted("b", v1alpha1.ReasonSuspended)}, nil, "", metav1.ConditionTrue, v1alpha1.ReasonUnused, "no SecretShare"},
		"one with a problem":                 {[]Granted{granted("a", ""), granted("b", v1alpha1.ReasonConflict)}, nil, "", metav1.ConditionFalse, v1alpha1.ReasonConflict, "1 copies are not up to date; Secret b of SecretShare data/it: why b waits"},
		"too many names":                     {[]Granted{granted("b", v1alpha1.ReasonConflict)}, nil, "data", metav1.ConditionFalse, v1alpha1.ReasonOverBudget, "more than 256 names for namespace data"},
		"a namespace that is another one":    {[]Granted{granted("a", "")}, []string{"data"}, "data", metav1.ConditionFalse, v1alpha1.ReasonSourceRecreated, "namespace data was deleted and created again"},
		"one that the SecretShare cannot do": {[]Granted{granted("b", v1alpha1.ReasonKeyNotFound)}, nil, "", metav1.ConditionFalse, v1alpha1.ReasonKeyNotFound, "why b waits"},
	} {
		t.Run(name, func(t *testing.T) {
			var status v1alpha1.SecretShareGrantStatus
			SetCopies(&status, tc.copies)
			got := GrantCondition(&status, tc.copies, tc.recreated, tc.exceeds)
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSetCopiesCountsAllAndListsTheFirst(t *testing.T) {
	var copies []Granted
	for i := range 120 {
		c := granted(fmt.Sprintf("secret-%03d", i), "")
		if i%2 == 1 {
			c.Problem = Problem{v1alpha1.ReasonCopyFailed, strings.Repeat("x", 2*MaxMessage)}
		}
		copies = append(copies, c)
	}
	var status v1alpha1.SecretShareGrantStatus
	SetCopies(&status, copies)
	if status.Synced != 60 || status.Waiting != 60 || len(status.SyncedCopies) != maxListedCopies || len(status.WaitingCopies) != maxListedCopies {
		t.Errorf("%d synced and %d waiting, %d and %d listed", status.Synced, status.Waiting, len(status.SyncedCopies), len(status.WaitingCopies))
	}
	if first := status.WaitingCopies[0]; first.Name != "secret-001" || len(first.Message) > MaxMessage {
		t.Errorf("the first one is %s, with a message of %d bytes", first.Name, len(first.Message))
	}
}

func TestAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		to   []string
		want bool
	}{
		"all names": {nil, true}, "its name": {[]string{"b", "a"}, true}, "a glob": {[]string{"a*"}, true}, "others": {[]string{"b*"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrant(1, "shop", tc.to...)
			if got := Allows(&g, "a"); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// The owner of the grant must not learn what the SecretShare's status says about others.
func TestHeldProblemQuotesNoStatus(t *testing.T) {
	rule := &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "it"}}
	rule.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonKeyNotFound, Message: "hunter2"}}
	if got := HeldProblem(rule); got.Reason != v1alpha1.ReasonKeyNotFound || strings.Contains(got.Message, "hunter2") || !strings.Contains(got.Message, "data/it") {
		t.Errorf("%+v", got)
	}
	rule.Spec.Suspend = true
	if got := HeldProblem(rule); got.Reason != v1alpha1.ReasonSuspended || !strings.Contains(got.Message, "set spec.suspend to false") {
		t.Errorf("%+v", got)
	}
}

func TestCopiesProblem(t *testing.T) {
	failing := []v1alpha1.SecretShareFailure{{Namespace: "a", Reason: v1alpha1.ReasonConflict, Message: "why"}}
	for name, tc := range map[string]struct {
		status  v1alpha1.SecretShareStatus
		pending bool
		failing []string
		want    Problem
	}{
		"none":               {v1alpha1.SecretShareStatus{Desired: 2, Synced: 2}, false, nil, Problem{}},
		"not yet synced":     {v1alpha1.SecretShareStatus{Desired: 2, Synced: 2}, true, nil, Problem{v1alpha1.ReasonCopying, "copies are being written"}},
		"one is missing":     {v1alpha1.SecretShareStatus{Desired: 2, Synced: 1}, false, nil, Problem{v1alpha1.ReasonCopying, "copies are being written"}},
		"one fails":          {v1alpha1.SecretShareStatus{Desired: 2, Synced: 1, Failing: failing}, true, []string{"a"}, Problem{v1alpha1.ReasonConflict, "1 of 2 copies are up to date; namespace a: why"}},
		"several namespaces": {v1alpha1.SecretShareStatus{Desired: 9, Failing: failing}, false, []string{"a", "b", "c", "d", "e", "f"}, Problem{v1alpha1.ReasonConflict, "0 of 9 copies are up to date; namespace a: why; also failing: b, c, d and 2 more"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CopiesProblem(&tc.status, tc.pending, tc.failing); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
