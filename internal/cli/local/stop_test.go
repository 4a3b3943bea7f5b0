package local

import (
	"testing"
	"time"
)

// What has not ended by stopWithin is killed, which takes a moment as well.
func TestStoppingTakesLessThan10Seconds(t *testing.T) {
	if within := stopWithin; within >= 10*time.Second {
		t.Errorf("it may take %v", within)
	}
}
