package operator

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// The other replica can see both the last renewal and the end of the lease one interval late:
// see the constants.
func TestAnotherReplicaLeadsWithin15SecondsOfACrash(t *testing.T) {
	interval := time.Duration((1 + leaderelection.JitterFactor) * float64(retryPeriod))
	if worst := leaseDuration + 2*interval; worst > 15*time.Second {
		t.Errorf("it may take %v", worst)
	}
}
