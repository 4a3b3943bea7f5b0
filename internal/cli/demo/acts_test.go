package demo

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/config/samples"
)

func TestEverySampleAlarmIsRaisedByOneAct(t *testing.T) {
	objects, err := samples.Alarms()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, o := range objects {
		if o.GetKind() == "Alarm" || o.GetKind() == "ClusterAlarm" {
			want = append(want, o.GetName())
		}
	}
	for _, a := range acts {
		got = append(got, a.raises...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-) and what the demo raises (+):\n%s", diff)
	}
}
