package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errAnswer is replaced by an askError.
var errAnswer = errors.New("not an answer of Jupyter's API")

// statusAnswer is the part of /api/status that is needed.
type statusAnswer struct{ lastActivity time.Time }

// UnmarshalJSON refuses an answer without last_activity.
func (s *statusAnswer) UnmarshalJSON(data []byte) error {
	var model struct {
		LastActivity *time.Time `json:"last_activity"`
	}
	if err := json.Unmarshal(data, &model); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if model.LastActivity == nil {
		return errAnswer
	}
	s.lastActivity = *model.LastActivity
	return nil
}

// activityAnswer is the answer of an HTTP server that is not Jupyter.
type activityAnswer struct {
	statusAnswer
	// precision is how much later than lastActivity the last use can be.
	precision time.Duration
}

// heartbeatInterval is how often code-server updates its lastHeartbeat while it is used.
const heartbeatInterval = time.Minute

// UnmarshalJSON reads last_activity, a time, or lastHeartbeat, in milliseconds since 1970.
func (a *activityAnswer) UnmarshalJSON(data []byte) error {
	var model struct {
		LastActivity  *time.Time `json:"last_activity"`
		LastHeartbeat *int64     `json:"lastHeartbeat"`
	}
	if err := json.Unmarshal(data, &model); err != nil {
		return fmt.Errorf("read activity: %w", err)
	}
	switch {
	case model.LastActivity != nil:
		a.lastActivity = *model.LastActivity
	case model.LastHeartbeat != nil:
		a.lastActivity = time.UnixMilli(*model.LastHeartbeat).UTC()
		a.precision = heartbeatInterval
	default:
		return errAnswer
	}
	return nil
}

// kernel is the part of a kernel that is needed.
type kernel struct {
	lastActivity time.Time
	busy         bool
}

// kernelsAnswer is /api/kernels.
type kernelsAnswer []kernel

// UnmarshalJSON refuses answers that are not lists, and kernels that lack a field.
func (k *kernelsAnswer) UnmarshalJSON(data []byte) error {
	models, err := list[struct {
		State        string     `json:"execution_state"`
		LastActivity *time.Time `json:"last_activity"`
	}](data)
	if err != nil {
		return err
	}
	*k = nil
	for _, m := range models {
		if m.State == "" || m.LastActivity == nil {
			return errAnswer
		}
		*k = append(*k, kernel{lastActivity: *m.LastActivity, busy: busy(m.State)})
	}
	return nil
}

// busy reports whether a kernel in that state is in use. Unknown states count as busy, as
// do busy, starting, restarting and autorestarting.
func busy(state string) bool { return state != "idle" && state != "dead" }

// terminalsAnswer contains the last activities of /api/terminals.
type terminalsAnswer []time.Time

// UnmarshalJSON refuses answers that are not lists, and terminals that lack last_activity.
func (t *terminalsAnswer) UnmarshalJSON(data []byte) error {
	models, err := list[struct {
		LastActivity *time.Time `json:"last_activity"`
	}](data)
	if err != nil {
		return err
	}
	*t = nil
	for _, m := range models {
		if m.LastActivity == nil {
			return errAnswer
		}
		*t = append(*t, *m.LastActivity)
	}
	return nil
}

// list reads a list of objects. It refuses null, also as an entry.
func list[T any](data []byte) ([]*T, error) {
	var models []*T
	if err := json.Unmarshal(data, &models); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	if models == nil {
		return nil, errAnswer
	}
	for _, m := range models {
		if m == nil {
			return nil, errAnswer
		}
	}
	return models, nil
}

// summarize combines the three answers.
func summarize(status statusAnswer, kernels kernelsAnswer, terminals terminalsAnswer, now time.Time) (Activity, error) {
	a := Activity{Server: status.lastActivity}
	busyKernels := 0
	for _, k := range kernels {
		a.Kernels = later(a.Kernels, k.lastActivity)
		if k.busy {
			busyKernels++
		}
	}
	for _, t := range terminals {
		a.Terminals = later(a.Terminals, t)
	}
	for _, last := range []*time.Time{&a.Server, &a.Kernels, &a.Terminals} {
		if last.After(now.Add(maxSkew)) {
			return Activity{}, errFuture
		}
		if last.After(now) { // clocks differ a little
			*last = now
		}
	}
	a.Busy, a.Detail = busyKernels > 0, detail(len(kernels), busyKernels, len(terminals))
	return a, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func detail(kernels, busyKernels, terminals int) string {
	var b strings.Builder
	b.WriteString(count(kernels, "kernel"))
	if busyKernels > 0 {
		fmt.Fprintf(&b, ", %d busy", busyKernels)
	}
	b.WriteString("; " + count(terminals, "terminal"))
	return b.String()
}

func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
