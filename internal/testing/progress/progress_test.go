package progress_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/progress"
)

func TestWaitContinuesWhileThereIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := progress.UntilNoneIsLeft(time.Minute, func() int { return 100 - int(time.Since(begin)/(50*time.Second)) })
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
	})
}

func TestWaitFailsIfTheCountOnlyGoesUpAndDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, calls := time.Now(), 0
		err := progress.UntilNoneIsLeft(time.Minute, func() int { calls++; return 10 + calls%2 })
		if took := time.Since(begin); err == nil || took < time.Minute || took > 2*time.Minute {
			t.Errorf("got error %v after %v, want an error after 1 to 2 minutes", err, took)
		}
	})
}
