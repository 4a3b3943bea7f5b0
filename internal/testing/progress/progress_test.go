package progress_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/progress"
)

func TestHoweverLongItTakesAsLongAsSomethingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := progress.UntilNoneIsLeft(time.Minute, func() int { return 100 - int(time.Since(begin)/(50*time.Second)) })
		if err != nil {
			t.Error(err)
		}
	})
}

func TestWhatComesBackIsNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, looks := time.Now(), 0
		err := progress.UntilNoneIsLeft(time.Minute, func() int { looks++; return 10 + looks%2 })
		if took := time.Since(begin); err == nil || took < time.Minute || took > 2*time.Minute {
			t.Errorf("%v after %v, want a failure after a minute", err, took)
		}
	})
}
