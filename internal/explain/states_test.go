package explain

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAStateIsBadByWholeWords(t *testing.T) {
	for value, want := range map[string]bool{
		"Failed": true, "PartiallyFailed": true, "CREATE_FAILED": true, "failed-mount": true, "Sync error": true,
		"HTTPError": true, "InvalidConfig": true, "Unhealthy": true, "Lost": true,
		"Failover": false, "FailingOver": false, "failed_over": false, "NoError": false, "no errors": false, "ErrorFree": false,
		"NotFailed": false, "Running": false, "Glossy": false, "": false,
	} {
		if got := badState(value); got != want {
			t.Errorf("%q: bad is %t, want %t", value, got, want)
		}
	}
}

func TestAConditionThatEndsWithAFailureIsGoodIfFalse(t *testing.T) {
	for name, want := range map[string]bool{
		"Failed": true, "ReplicaFailure": true, "ErrorOccurred": true, "SyncError": true, "ReconcileErrored": true, "Unavailable": true,
		"NoError": false, "ContinueOnError": false, "FailedOver": false, "Failover": false, "FailurePolicy": false, "Terror": false,
	} {
		status, ok := wantedOf(name)
		if ok != want || status != metav1.ConditionFalse {
			t.Errorf("%s: status %s wanted: %t, want %t", name, status, ok, want)
		}
	}
}
