package counters

import (
	"cmp"
	"slices"
	"time"
)

// NoticeFor is how long one notice speaks for what happens again: as long as an
// Event lives.
const NoticeFor = 50 * time.Minute

// Notice is something that happened and that the subject's owner must hear of: it
// becomes an Event.
type Notice struct {
	// Reason is one of the API's documented reasons.
	Reason string
	// Text is the sentence of the first time.
	Text string
	// Since is that time.
	Since time.Time
}

// Notify notes that something happened to a subject. The same reason again
// within fifty minutes changes nothing: a flood of failures is one Event.
func (t *Counters) Notify(subject string, n Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subject(subject)
	if last, ok := s.notices[n.Reason]; ok && n.Since.Sub(last.Since) < NoticeFor {
		return
	}
	if s.notices == nil {
		s.notices = map[string]Notice{}
	}
	s.notices[n.Reason] = n
	t.changed[subject] = struct{}{}
}

// Notices returns what is still worth saying: the last notice of each reason,
// unless it is older than fifty minutes, the newest first.
func (t *Counters) Notices(subject string, now time.Time) []Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.subjects[subject]
	if !ok {
		return nil
	}
	notices := make([]Notice, 0, len(s.notices))
	for _, n := range s.notices {
		if now.Sub(n.Since) >= NoticeFor {
			continue
		}
		notices = append(notices, n)
	}
	slices.SortFunc(notices, func(a, b Notice) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Reason, b.Reason))
	})
	return notices
}

// Touch marks a subject as changed, so that its controller looks at it.
func (t *Counters) MarkChanged(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed[subject] = struct{}{}
}
