package receivers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// delivering is a Dispatcher with these results.
type delivering struct {
	Dispatcher
	failure   *notify.SendError
	aside     int
	attempted bool
	untried   bool
	test      notify.TestResult
}

func (d delivering) Failure(string) *notify.SendError             { return d.failure }
func (d delivering) NextAttempt(string) time.Time                 { return time.Time{} }
func (d delivering) SetAside(string) int                          { return d.aside }
func (d delivering) LastAttempt(string) (*notify.SendError, bool) { return d.failure, d.attempted }
func (d delivering) LastTest(string) notify.TestResult            { return d.test }
func (d delivering) IsUntried(string) bool                        { return d.untried }
func (d delivering) Dropped(string) string                        { return "all" }

func TestTheLastMessageAndTheLastTestAreReported(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	failing := &notify.SendError{Reason: v1alpha1.ReasonDeliveryFailing, Text: "no answer"}
	for name, tc := range map[string]struct {
		dispatcher delivering
		want       status.Delivery
	}{
		"nothing":  {delivering{}, status.Delivery{}},
		"accepted": {delivering{attempted: true}, status.Delivery{Attempted: true}},
		"failed":   {delivering{attempted: true, failure: failing}, status.Delivery{Attempted: true, Reason: v1alpha1.ReasonDeliveryFailing, Message: "no answer"}},
		"a test":   {delivering{test: notify.TestResult{Value: "a", At: at}}, status.Delivery{Test: "a", TestedAt: at}},
		"a test that failed": {
			delivering{test: notify.TestResult{Value: "a", At: at, Failure: failing}},
			status.Delivery{Test: "a", TestedAt: at, TestFailure: "no answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Dependencies: Dependencies{Dispatcher: tc.dispatcher}}
			if diff := cmp.Diff(&tc.want, r.delivery("AlarmReceiver/shop/team", &v1alpha1.AlarmReceiver{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessagesThatAreSetAsideAreReported(t *testing.T) {
	failing := &notify.SendError{Reason: v1alpha1.ReasonDeliveryFailing, Text: "the receiver does not answer"}
	for name, tc := range map[string]struct {
		dispatcher delivering
		reason     string
		message    string
	}{
		"none":                   {delivering{}, "", ""},
		"two":                    {delivering{aside: 2}, v1alpha1.ReasonMessageSetAside, "but not 2: correct the receiver, or drop these with the annotation bongsu.io/drop=all"},
		"the receiver fails too": {delivering{aside: 2, failure: failing}, v1alpha1.ReasonDeliveryFailing, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Dependencies: Dependencies{Dispatcher: tc.dispatcher}}
			got := r.deliveries("AlarmReceiver/shop/team", &v1alpha1.AlarmReceiver{})
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || got.SetAside != int64(tc.dispatcher.aside) || got.HandledDrop != "all" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Otherwise, Recovered would be emitted in the middle of an outage.
func TestAReceiverThatFailedBeforeARestartFailsUntilItIsTried(t *testing.T) {
	failing := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeliveryFailing, Message: "no answer", ObservedGeneration: 1}
	for name, tc := range map[string]struct {
		dispatcher delivering
		generation int64
		want       string
	}{
		"messages wait":           {delivering{untried: true}, 1, v1alpha1.ReasonDeliveryFailing},
		"it was tried":            {delivering{attempted: true}, 1, ""},
		"nothing waits":           {delivering{}, 1, ""},
		"the spec changed":        {delivering{untried: true}, 2, ""},
		"it fails differently":    {delivering{failure: &notify.SendError{Reason: v1alpha1.ReasonAddressNotAllowed}}, 1, v1alpha1.ReasonAddressNotAllowed},
		"other messages are sent": {delivering{untried: true, aside: 1}, 1, v1alpha1.ReasonMessageSetAside},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.AlarmReceiver{}
			object.Generation, object.Status.Conditions = tc.generation, []metav1.Condition{failing}
			r := &Reconciler{Dependencies: Dependencies{Dispatcher: tc.dispatcher}}
			if got := r.deliveries("AlarmReceiver/shop/team", object); got.Reason != tc.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSecretsThatAreNotWatchedAreReadAgain(t *testing.T) {
	withSecret := &v1alpha1.AlarmReceiver{}
	withSecret.Spec.Slack = &v1alpha1.SlackReceiver{WebhookURLSecretRef: &v1alpha1.SecretURLReference{Key: "url"}}
	for name, tc := range map[string]struct {
		unwatched bool
		object    Object
		reason    string
		want      time.Duration
	}{
		"watched":                          {false, withSecret, "", 0},
		"watched, without the permission":  {false, withSecret, v1alpha1.ReasonSecretForbidden, rereadSecrets},
		"unwatched":                        {true, withSecret, "", rereadSecrets},
		"unwatched, and it does not exist": {true, withSecret, v1alpha1.ReasonSecretNotFound, rereadSecrets},
		"no Secret":                        {true, &v1alpha1.AlarmReceiver{}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Dependencies: Dependencies{Unwatched: tc.unwatched}}
			if got := r.rereadAfter(tc.object, status.Result{Reason: tc.reason}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
