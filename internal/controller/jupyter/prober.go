package jupyter

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// atOnce is how many notebooks are asked at once. One that does not answer takes a
// place for its time-out.
const atOnce = 64

// prober asks notebooks whether they are used, outside of every reconcile, and has
// those looked at again of which there is news.
type prober struct {
	pool      *probe.Pool[culling.Observation]
	client    *server.Client
	clock     clock.PassiveClock
	lookAgain func(ctx context.Context, name types.NamespacedName)

	mu    sync.Mutex
	asked map[types.NamespacedName]*asked
}

// asked is a notebook that is asked.
type asked struct {
	who    whom
	record culling.Record
	// last is what was decided upon last: what is news depends on it.
	last culling.Input
}

// whom says who is asked, by which token, and how often. It holds no token.
type whom struct {
	pod     types.UID
	address string
	token   v1alpha1.SecretKeyReference
	rhythm  culling.Settings
}

func newProber(clk clock.WithTicker, dial server.DialFunc, lookAgain func(context.Context, types.NamespacedName)) *prober {
	p := &prober{
		client: server.New(clk, dial), clock: clk, lookAgain: lookAgain,
		asked: map[types.NamespacedName]*asked{},
	}
	p.pool = probe.NewPool(atOnce, clk, p.report)
	return p
}

// asks says whether that is who is asked for the notebook.
func (p *prober) asks(name types.NamespacedName, who whom) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[name]
	return a != nil && a.who == who
}

// ask has a notebook asked. What another pod of it said is forgotten. The token is
// kept in what the pool runs, and nowhere else.
func (p *prober) ask(name types.NamespacedName, who whom, token string) {
	p.mu.Lock()
	a := p.asked[name]
	if a == nil || a.who.pod != who.pod {
		a = &asked{last: culling.Input{Settings: who.rhythm}}
		p.asked[name] = a
	}
	a.who = who
	p.mu.Unlock()
	target := server.Target{Address: who.address, Token: token}
	p.pool.Put(probe.Check[culling.Observation]{
		Key: name, PodUID: who.pod, Period: who.rhythm.Period, Timeout: who.rhythm.Timeout,
		Run:     func(ctx context.Context) culling.Observation { return p.observe(ctx, target) },
		Overdue: p.overdue,
	})
}

func (p *prober) overdue() culling.Observation {
	return culling.Observation{At: p.clock.Now(), Failure: "the probe does not end"}
}

// observe asks once.
func (p *prober) observe(ctx context.Context, target server.Target) culling.Observation {
	o := culling.Observation{At: p.clock.Now()} // of what comes after, the answer may not tell
	activity, err := p.client.Ask(ctx, target)
	if err != nil {
		o.Failure = err.Error()
		return o
	}
	o.Last, o.Busy, o.Detail = activity.Last, activity.Busy, activity.Detail
	return o
}

// forget stops asking a notebook.
func (p *prober) forget(name types.NamespacedName) {
	p.pool.Remove(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, name)
}

// forgetToken has the token of a notebook read anew when it is next looked at.
func (p *prober) forgetToken(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.asked[name]; a != nil {
		a.who.token = v1alpha1.SecretKeyReference{}
	}
}

// report takes up what a probe came to.
func (p *prober) report(ctx context.Context, name types.NamespacedName, pod types.UID, o culling.Observation) {
	if p.note(name, pod, o) {
		p.lookAgain(ctx, name)
	}
}

// note says whether an observation is news.
func (p *prober) note(name types.NamespacedName, pod types.UID, o culling.Observation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[name]
	if a == nil || a.who.pod != pod {
		return false
	}
	a.record = a.record.Add(o, a.last.Settings)
	return a.isNews(p.clock.Now())
}

// isNews says whether what is known now leads to another decision than the last.
func (a *asked) isNews(now time.Time) bool {
	in := a.last
	in.Record, in.Now = a.record, now
	d := culling.Decide(in)
	return d.Changes(in.Remembered)
}

// record is what the probes of a notebook came to.
func (p *prober) record(name types.NamespacedName) culling.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.asked[name]; a != nil {
		return a.record
	}
	return culling.Record{}
}

// decided notes what was decided upon, and what is remembered of it; it says whether
// there has been news since.
func (p *prober) decided(name types.NamespacedName, in culling.Input) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[name]
	if a == nil {
		return false
	}
	news = a.record != in.Record
	a.last = in
	return news && a.isNews(p.clock.Now())
}
