package pipeline

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// matchers is how many occurrences are matched at once: most of the time is spent
// waiting for the object that an Event regards.
const matchers = 8

// Enricher looks up what is known about an Event's surroundings.
type Enricher interface {
	Context(ctx context.Context, event *alarm.Event) alarm.Context
}

// verdict is what became of one alarm and one occurrence.
type verdict struct {
	alarm   *alarm.Alarm
	outcome alarm.Outcome
	err     error
	message alarm.Message
}

// matcher decides which alarms a batch of occurrences matches.
type matcher struct {
	alarms     *Alarms
	namespaces alarm.Namespaces
	enricher   Enricher
	budget     *budget
}

// match returns the verdicts on each occurrence, in the occurrences' order, and the
// Alarms that were not asked about each, for they are over their budget. Most occurrences are of interest to
// nobody; the others are looked up side by side.
func (m *matcher) match(ctx context.Context, occurrences []alarm.Occurrence) ([][]verdict, []*alarm.Alarm, error) {
	index := m.alarms.Index()
	meters := m.budget.open()
	verdicts := make([][]verdict, len(occurrences))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(matchers)
	for i := range occurrences {
		occ := &occurrences[i]
		candidates := index.Candidates(occ, m.namespaces, meters.of(index, occ.Event.Namespace))
		if len(candidates) == 0 {
			continue
		}
		group.Go(func() error {
			verdicts[i] = m.judge(ctx, occ, candidates)
			return ctx.Err()
		})
	}
	err := group.Wait()
	var unasked []*alarm.Alarm
	for _, namespace := range meters.close() {
		unasked = append(unasked, index.Own(namespace)...)
	}
	return verdicts, unasked, err
}

func (m *matcher) judge(ctx context.Context, occ *alarm.Occurrence, candidates []alarm.Candidate) []verdict {
	known := m.enricher.Context(ctx, &occ.Event)
	verdicts := make([]verdict, 0, len(candidates))
	for _, c := range candidates {
		result := c.Match(ctx, &known)
		v := verdict{alarm: c.Alarm, outcome: result.Outcome, err: result.Err}
		if v.outcome == alarm.Matched {
			var err error
			v.message, err = c.Render(ctx, &known)
			if v.err == nil {
				v.err = err
			}
		}
		if v.outcome != alarm.NotMatched || v.err != nil {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}
