package servers

import (
	"context"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
)

const (
	// idle is how long a notebook is unused before it is culled.
	idle = 4 * time.Second
	// patience is how long a test waits. The machine may be busy.
	patience = 2 * time.Minute
)

// notebook decides about a server as the controller does, with its own settings.
type notebook struct {
	settings culling.Settings
	started  time.Time
	record   culling.Record
	memory   culling.Memory
	// latest is the last decision. culled is when a decision culled first; zero for never.
	latest culling.Decision
	culled time.Time
}

func newNotebook(activity v1alpha1.CullingActivity, openTerminal time.Duration) *notebook {
	return &notebook{
		started: time.Now(), memory: culling.MemoryOf(&v1alpha1.JupyterStatus{}),
		settings: culling.Settings{
			Activity: activity, OpenTerminal: openTerminal,
			IdleTimeout: idle, Warning: time.Second, Period: time.Second, Timeout: 10 * time.Second, FailureThreshold: 3,
		},
	}
}

func (n *notebook) add(o culling.Observation) {
	n.record = n.record.Add(o, n.settings)
	n.latest = culling.Decide(culling.Input{
		Settings: n.settings, Started: n.started, Remembered: n.memory, Record: n.record, Now: time.Now(),
	})
	n.memory = culling.Memory{
		Idle: n.latest.Idle, Responding: n.latest.Responding,
		LastActivity: n.latest.LastActivity, CullTime: n.latest.CullTime, Probe: n.latest.Probe,
	}
	if n.latest.Cull && n.culled.IsZero() {
		n.culled = time.Now()
	}
}

// ask asks a server as a probe does. The test fails if the server does not answer as expected.
func ask(t *testing.T, target server.Target) culling.Observation {
	t.Helper()
	o := culling.Observation{At: time.Now()}
	a, err := server.New(clock.RealClock{}, nil).Ask(t.Context(), target)
	if err != nil {
		t.Fatalf("the server does not say whether it is used: %v", err)
	}
	o.Server, o.Kernels, o.Terminals, o.Busy, o.Detail = a.Server, a.Kernels, a.Terminals, a.Busy, a.Detail
	return o
}

// watch asks a server until done, and lets each notebook decide. meanwhile runs after each
// probe.
func watch(t *testing.T, target server.Target, notebooks []*notebook, meanwhile func(culling.Observation), done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		o := ask(t, target)
		for _, n := range notebooks {
			n.add(o)
		}
		meanwhile(o)
		select {
		case <-ctx.Done():
			for _, n := range notebooks {
				t.Logf("%s: culled %v, %+v", n.settings.Activity, n.culled, n.latest.Idle)
			}
			t.Fatalf("not done in %v; the last answer: %+v", patience, o)
		case <-time.After(250 * time.Millisecond):
		}
	}
}
