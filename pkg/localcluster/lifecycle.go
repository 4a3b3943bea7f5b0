package localcluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout bounds how long a component may take to get ready. A second
	// or two is usual; a busy machine is not an error.
	startTimeout = 90 * time.Second
	// startAttempts bounds how often a component is given another port when
	// somebody takes the one that was picked for it before it listens there.
	startAttempts = 4
)

// bring starts a component and waits until it is ready, on another port if
// somebody has taken its own.
func (c *Cluster) bring(ctx context.Context, component Component) error {
	c.config.Progress(fmt.Sprintf("starting %s", component))
	for attempt := 1; ; attempt++ {
		p, err := c.launch(ctx, component)
		if err == nil {
			return nil
		}
		if p == nil || p.running() || attempt == startAttempts || !c.ports.taken(portsOf(component)...) {
			return err
		}
		if err := c.ports.ensure(c.dir, portsOf(component)...); err != nil {
			return err
		}
	}
}

// launch starts a component once. It returns the process also if that does not
// get ready.
func (c *Cluster) launch(ctx context.Context, component Component) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if component == Kwok {
		if err := c.releaseNodes(ctx); err != nil {
			return nil, err
		}
	}
	p, err := startProcess(c.dir, component, c.command(component))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.processes[component] = p // where Stop finds it
	c.mu.Unlock()
	if err := c.awaitReady(ctx, p); err != nil {
		return p, err
	}
	go c.report(p)
	return p, nil
}

// bringAll brings components that do not depend on each other.
func (c *Cluster) bringAll(ctx context.Context, components []Component) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, component := range components {
		group.Go(func() error { return c.bring(ctx, component) })
	}
	return group.Wait()
}

func portsOf(component Component) []Component {
	if component == Etcd {
		return []Component{Etcd, etcdPeer}
	}
	return []Component{component}
}

// report tells of a process that ends unasked.
func (c *Cluster) report(p *process) {
	<-p.exited
	if p.ending.Load() {
		return
	}
	select {
	case c.failed <- p.failure():
	default: // nobody has listened for a long time
	}
}

// Kill ends a component with SIGKILL, as the kernel or a failing machine would.
// It is not reported as a failure.
func (c *Cluster) Kill(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[component]
	if p == nil {
		return fmt.Errorf("%s does not run", component)
	}
	p.kill()
	delete(c.processes, component)
	return nil
}

// Restart starts a component again, on its former port and data, and returns
// when it is ready. One that still runs is killed first.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	_ = c.Kill(component) // it may be dead, which is the usual case
	if err := c.awaitPorts(ctx, component); err != nil {
		return err
	}
	_, err := c.launch(ctx, component)
	return err
}

// awaitPorts returns when nobody has the component's ports: while it was dead, the
// kernel may have given one to a connection of somebody else's.
func (c *Cluster) awaitPorts(ctx context.Context, component Component) error {
	err := wait.PollUntilContextTimeout(ctx, readyInterval, startTimeout, true, func(context.Context) (bool, error) {
		return !c.ports.taken(portsOf(component)...), nil
	})
	if err != nil {
		return fmt.Errorf("wait until the port of %s is free: %w", component, err)
	}
	return nil
}
