package pipeline

import (
	"context"
	"fmt"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// adopt gives the receivers of a decision what waits for them, because the decision can change the
// same groups. A receiver that was created after the occurrences were matched gets them.
func (s *suppressor) adopt(ctx context.Context, evaluations [][]evaluation) error {
	for i := range evaluations {
		for j := range evaluations[i] {
			e := &evaluations[i][j]
			if e.outcome != match.Matched {
				continue
			}
			for k := range e.recipients {
				if err := s.adoptFor(ctx, &e.recipients[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *suppressor) adoptFor(ctx context.Context, r *recipient) error {
	if r.id == r.awaited && s.identify != nil {
		if id, _ := s.identify(r.key); id != "" {
			r.id = id
		}
	}
	if s.adopts == nil || alarm.IsAwaited(r.id) || s.outbox.Waiting(r.awaited) == 0 {
		return nil
	}
	adopts, err := s.adopts(r.id, r.awaited)
	if err != nil {
		return fmt.Errorf("read the namespace of %s: %w", r.key, err)
	}
	if !adopts {
		return nil
	}
	return s.outbox.AdoptInDecision(ctx, r.awaited, r.id)
}
