package operator

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// The other replica may see the last renewal one look late, and the lease's end
// another one: see the constants.
func TestAnotherReplicaMayLeadWithin15SecondsOfACrash(t *testing.T) {
	look := time.Duration((1 + leaderelection.JitterFactor) * float64(retryPeriod))
	if worst := leaseDuration + 2*look; worst > 15*time.Second {
		t.Errorf("it may take %v", worst)
	}
}
