package counters

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// FlushEvery is how often changed subjects are told of: a status is at most this
// old, plus the time of its write.
const FlushEvery = 2 * time.Second

// Flush calls changed for each subject that changed, every FlushEvery, until ctx
// ends, and returns nil then.
func (t *Counters) Flush(ctx context.Context, clk clock.WithTicker, changed func(ctx context.Context, subject string)) error {
	ticker := clk.NewTicker(FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			for _, subject := range t.takeChanged() {
				changed(ctx, subject)
			}
		}
	}
}
