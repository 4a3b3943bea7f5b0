package events_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// cause returns the cause of a container that failed a time ago.
func cause(reason string, ago time.Duration) events.Outcome {
	return events.Outcome{Failure: &diagnosis.Cause{
		Reason: reason, Object: diagnosis.Object{Kind: "Pod", Name: "web-0"}, Container: "web", Message: "container web failed", Time: noon.Add(-ago),
	}}
}

func TestReportEmitsOneWarningForAFailureAndOneRecovered(t *testing.T) {
	starts, works, failed := events.Outcome{}, events.Outcome{Works: true}, errors.New("conflict")
	pull, backOff := cause(diagnosis.ReasonErrImagePull, 0), cause(diagnosis.ReasonImagePullBackOff, 0)
	type reconcile struct {
		outcome events.Outcome
		write   error
	}
	for name, tc := range map[string]struct {
		reconciles []reconcile
		want       []string
		again      bool // is it called again if nothing changes?
	}{
		"nothing fails":                        {reconciles: []reconcile{{outcome: starts}, {outcome: works}, {outcome: works}}},
		"the stages of a pull":                 {[]reconcile{{outcome: pull}, {outcome: backOff}, {outcome: pull}}, []string{"ImagePullBackOff"}, true},
		"a crash loop":                         {[]reconcile{{outcome: cause("Error", time.Minute)}, {outcome: cause("CrashLoopBackOff", 0)}}, []string{"Error"}, true},
		"a crash that just began":              {[]reconcile{{outcome: cause("Error", time.Second)}}, nil, true},
		"it is over before the Warning is due": {reconciles: []reconcile{{outcome: cause("Error", time.Second)}, {outcome: works}}},
		"it is corrected": {
			[]reconcile{{outcome: pull}, {outcome: backOff}, {outcome: starts}, {outcome: works}, {outcome: works}},
			[]string{"ImagePullBackOff", "Recovered"}, false,
		},
		"it comes again while it starts": {
			[]reconcile{{outcome: pull}, {outcome: starts}, {outcome: pull}, {outcome: works}}, []string{"ImagePullBackOff", "Recovered"}, false,
		},
		"it comes again after it worked": {
			[]reconcile{{outcome: pull}, {outcome: works}, {outcome: backOff}}, []string{"ImagePullBackOff", "ImagePullBackOff", "Recovered"}, true,
		},
		"no write succeeds":              {[]reconcile{{pull, failed}, {pull, failed}}, nil, false},
		"the write of a recovery failed": {[]reconcile{{outcome: pull}, {works, failed}, {outcome: works}}, []string{"ImagePullBackOff", "Recovered"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			api, clk := fake.NewClientBuilder().Build(), clocktesting.NewFakePassiveClock(noon)
			var stored metav1.Time // in the status of the object
			var again time.Duration
			for i, r := range tc.reconciles {
				clk.SetTime(noon.Add(time.Duration(i) * time.Second)) // each process is a new one
				since := stored
				var err error
				again, err = events.NewRecorder(api, clk, "app-controller").Report(t.Context(), app, &since, r.outcome, func(context.Context) error {
					if r.write == nil {
						stored = since
					}
					return r.write
				})
				if !errors.Is(err, r.write) {
					t.Fatal(err)
				}
			}
			var got []string
			for _, e := range emitted(t, api) {
				got = append(got, e.Reason)
			}
			count := cmp.Transformer("count", func(all []string) map[string]int {
				n := map[string]int{}
				for _, s := range all {
					n[s]++
				}
				return n
			})
			if diff := cmp.Diff(tc.want, got, count); diff != "" || again > 0 != tc.again {
				t.Errorf("want (-) and got (+), again after %v:\n%s", again, diff)
			}
		})
	}
}
