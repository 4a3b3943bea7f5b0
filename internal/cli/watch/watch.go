package watch

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Config says what to watch, and who is told.
type Config struct {
	Client dynamic.Interface
	Target Target
	// OnlyChanges leaves out what is there from the start.
	OnlyChanges bool
	// Print prints a change. If it fails, the watch ends.
	Print Printer
	// Tell is told, in a line each, how the watch itself is doing.
	Tell func(line string)
	// Clock tells when changes were heard of.
	Clock clock.PassiveClock
}

// Printer prints changes.
type Printer interface {
	Print(c *Change) error
}

// Run watches until the context ends, which is no error, or until it can not go
// on.
func Run(ctx context.Context, config Config) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The libraries' log would show objects as they come.
	running = klog.NewContext(running, logr.Discard())

	w := &watcher{config: config, changes: newBacklog()}
	link := &link{config: config, end: end}
	informer, synced, err := w.informer(link)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	reading.Go(func() { informer.RunWithContext(running) })
	stop := context.AfterFunc(running, w.changes.close)
	defer stop()

	if cache.WaitFor(running, "", synced) {
		link.established()
		end(w.print(running))
	}
	<-running.Done()
	reading.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// watcher hears of changes and prints them.
type watcher struct {
	config   Config
	existing existing
	changes  *backlog
}

func (w *watcher) informer(link *link) (cache.SharedIndexInformer, cache.DoneChecker, error) {
	informer := cache.NewSharedIndexInformerWithOptions(
		newSource(w.config, link), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
	if err := informer.SetTransform(newRedactor().transform); err != nil {
		return nil, nil, err
	}
	// What failed, the link has told already.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, nil, err
	}
	registration, err := informer.AddEventHandler(w)
	if err != nil {
		return nil, nil, err
	}
	return informer, registration.HasSyncedChecker(), nil
}

// print prints what exists, and then what changes.
func (w *watcher) print(ctx context.Context) error {
	if err := w.printExisting(ctx); err != nil {
		return err
	}
	for {
		c, ok := w.changes.take()
		if !ok {
			return ctx.Err()
		}
		if err := w.printOne(ctx, c); err != nil {
			return err
		}
	}
}

func (w *watcher) printExisting(ctx context.Context) error {
	there := w.existing.sorted()
	w.existing = nil // or it would keep what is long out of date
	w.config.Tell(fmt.Sprintf("cache synced: %d %s; watching for changes", len(there), w.config.Target))
	if w.config.OnlyChanges {
		return nil
	}
	for _, c := range there {
		if err := w.printOne(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) printOne(ctx context.Context, c *Change) error {
	if err := ctx.Err(); err != nil {
		return err // whoever ends the watch does not wait for a long list
	}
	return w.config.Print.Print(c)
}
