package ack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// key returns the key of group i.
func key(i int) string { return fmt.Sprintf("%032x", 0xabcdef00+i) }

// open returns the status of an alarm with n open groups.
func open(n int) *v1alpha1.AlarmStatus {
	status := &v1alpha1.AlarmStatus{OpenGroupCount: int64(n)}
	for i := range min(n, v1alpha1.MaxAcknowledgements) {
		status.OpenGroups = append(status.OpenGroups, v1alpha1.AlarmOpenGroup{Key: key(i), Name: fmt.Sprint("Pod/shop/web-", i), Since: metav1.NewTime(noon)})
	}
	return status
}

func grouping() *v1alpha1.AlarmSpec { return &v1alpha1.AlarmSpec{Group: &v1alpha1.AlarmGroup{}} }

func TestAddAcknowledgesTheGroupThatTheUserMeans(t *testing.T) {
	for name, tc := range map[string]struct {
		open int
		s    Selection
		want int // groups
		err  string
	}{
		"the only one":              {open: 1, want: 1},
		"by name":                   {open: 3, s: Selection{Group: "Pod/shop/web-1"}, want: 1},
		"by key":                    {open: 3, s: Selection{Group: key(1)}, want: 1},
		"all":                       {open: 3, s: Selection{All: true}, want: 3},
		"one that is not listed":    {open: 40, s: Selection{Group: key(39)}, want: 1},
		"none":                      {err: "no group is open and not acknowledged in the status of the alarm, which can be some seconds older than a message: try again"},
		"all of none":               {s: Selection{All: true}, err: "no group is open and not acknowledged"},
		"one of several":            {open: 7, err: "7 groups are open and not acknowledged: use --group with one of Pod/shop/web-0, "},
		"another name":              {open: 3, s: Selection{Group: "web-1"}, err: `no open group is named "web-1"`},
		"a key that is not open":    {open: 3, s: Selection{Group: key(9)}, err: "no open group is named"},
		"a beginning of several":    {open: 3, s: Selection{Group: key(1)[:31]}, err: "names 3 groups: use --group with one of the keys " + key(0) + " (since 2026-11-24T12:00:00Z), " + key(1)},
		"a beginning that is short": {open: 3, s: Selection{Group: "00000"}, err: "no open group is named"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := grouping()
			added, err := Add(spec, open(tc.open), tc.s, "ana", "mine", noon.Add(time.Minute))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || len(added) != tc.want || len(spec.Acknowledgements) != tc.want {
				t.Fatalf("%d groups, %d acknowledgements, %v", len(added), len(spec.Acknowledgements), err)
			}
			if a := spec.Acknowledgements[0]; a.By != "ana" || a.Comment != "mine" || !a.Time.Time.Equal(noon.Add(time.Minute)) {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestAddTwiceChangesNothing(t *testing.T) {
	spec, status := grouping(), open(1)
	for i, want := range []int{1, 0} {
		added, err := Add(spec, status, Selection{Group: key(0)}, fmt.Sprint("user-", i), "", noon)
		if err != nil || len(added) != want || len(spec.Acknowledgements) != 1 || spec.Acknowledgements[0].By != "user-0" {
			t.Errorf("%d groups, %+v, %v", len(added), spec.Acknowledgements, err)
		}
	}
}

func TestAddRemovesTheAcknowledgementsOfGroupsThatEnded(t *testing.T) {
	spec, status := grouping(), open(3)
	if _, err := Add(spec, status, Selection{All: true}, "ana", "", noon); err != nil {
		t.Fatal(err)
	}
	status = open(2)                                                     // the third has ended
	status.OpenGroups[1].Since = metav1.NewTime(noon.Add(2 * time.Hour)) // the second began again
	if _, err := Add(spec, status, Selection{Group: key(1)}, "bo", "", noon.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if a := spec.Acknowledgements; len(a) != 2 || a[0].By != "ana" || a[1].By != "bo" || a[1].Group != key(1) {
		t.Errorf("%+v", a)
	}
}

func TestAddRefusesMoreThanTheLimitAndAlarmsWithoutGroups(t *testing.T) {
	spec := grouping()
	if _, err := Add(spec, open(40), Selection{All: true}, "ana", "", noon); err != nil {
		t.Fatal(err)
	}
	_, err := Add(spec, open(40), Selection{Group: key(39)}, "ana", "", noon)
	if err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("got %v", err)
	}
	_, err = Add(&v1alpha1.AlarmSpec{}, open(0), Selection{}, "ana", "", noon)
	if err == nil || !strings.Contains(err.Error(), "set spec.group") {
		t.Errorf("got %v", err)
	}
}

func TestRemoveEndsAcknowledgements(t *testing.T) {
	spec, status := grouping(), open(2)
	if _, err := Add(spec, status, Selection{All: true}, "ana", "", noon); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(spec, status, Selection{}); err == nil {
		t.Error("two are acknowledged, and none was named")
	}
	removed, err := Remove(spec, status, Selection{Group: "Pod/shop/web-1"})
	if err != nil || len(removed) != 1 || len(spec.Acknowledgements) != 1 || spec.Acknowledgements[0].Group != key(0) {
		t.Errorf("%v, %v, %+v", removed, err, spec.Acknowledgements)
	}
}
