package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reason is the reason of all Events of a flood.
const reason = "Flood"

// writers is the number of parallel writers of a flood.
const writers = 8

// flood creates Events until it is stopped.
type flood struct {
	fixture *fixture
	limiter *rate.Limiter
	stop    context.CancelFunc
	writers sync.WaitGroup

	mu      sync.Mutex
	begun   int
	atMost  int
	created []string
	// increases is the sum by which counts increased.
	increases int
	err       error
}

// positions contains the resourceVersions of all Events of floods, by name.
var positions sync.Map

// burst creates n Events as fast as the API server accepts them. It returns the names by which
// receivers identify them.
func (s *fixture) burst(n int) []string {
	s.t.Helper()
	return s.flood(rate.Inf, n).wait()
}

// burstUntil creates Events until holds returns true, and returns their names. Its limit is a
// number of Events, not a time, because the machine may be slow.
func (s *fixture) burstUntil(holds func() bool) []string {
	s.t.Helper()
	var created []string
	for len(created) < 30_000 {
		created = append(created, s.burst(100)...)
		// Give the manager time to handle them.
		for range 20 {
			if holds() {
				return created
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	s.t.Fatalf("the condition is not true after %d Events", len(created))
	return nil
}

// floodAt creates Events at this rate until it is stopped.
func (s *fixture) floodAt(perSecond rate.Limit) *flood { return s.flood(perSecond, 0) }

var floods = 0

func (s *fixture) flood(perSecond rate.Limit, atMost int) *flood {
	// After a kill, a receiver gets nothing of the second in which it was created.
	time.Sleep(time.Second)
	floods++
	ctx, stop := context.WithCancel(s.t.Context())
	f := &flood{fixture: s, limiter: rate.NewLimiter(perSecond, 1), stop: stop, atMost: atMost}
	prefix := fmt.Sprintf("flood-%d", floods)
	for range writers {
		f.writers.Go(func() {
			var counted string
			for f.limiter.Wait(ctx) == nil {
				n, more := f.next()
				if !more {
					return
				}
				name := fmt.Sprintf("%s-%05d", prefix, n)
				switch {
				case !s.counts:
					f.create(name)
				case counted == "" || n%10 == 0:
					counted = name
					f.count(counted, name, 1)
				default:
					f.count(counted, name, int32(1+n%3))
				}
			}
		})
	}
	s.t.Cleanup(func() { stop(); f.writers.Wait() })
	return f
}

func (f *flood) next() (n int, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.atMost > 0 && f.begun == f.atMost || f.err != nil {
		return 0, false
	}
	f.begun++
	return f.begun, true
}

// create creates an Event. It retries while the API server is not available.
func (f *flood) create(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	event := newEvent(f.fixture.namespace, name)
	if f.fixture.regarding != nil {
		event.Regarding.Name = f.fixture.regarding(name)
	}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		event.ResourceVersion = ""
		err := f.fixture.Client.Create(ctx, event)
		if apierrors.IsAlreadyExists(err) { // the response to an earlier attempt was lost
			err = f.fixture.Client.Get(ctx, client.ObjectKeyFromObject(event), event)
		}
		return err == nil, nil
	})
	f.record(name, event.ResourceVersion, 1, err)
}

// record records an occurrence that was written at a version.
func (f *flood) record(name, version string, increase int32, err error) {
	if err == nil {
		var position uint64
		position, err = strconv.ParseUint(version, 10, 64)
		positions.Store(name, position)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.err = fmt.Errorf("write Event %s: %w", name, err)
		return
	}
	f.created = append(f.created, name)
	f.increases += int(increase)
}

// count increases the count of an Event as a kubelet does, and creates it if it does not
// exist. Every fifth time, the count falls first. The message becomes the name of the
// occurrence. count retries while the API server is not available.
func (f *flood) count(event, name string, by int32) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.fixture.namespace, Name: event},
		Type:       corev1.EventTypeNormal, Reason: reason, Message: name, Source: corev1.EventSource{Component: "chaos"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: f.fixture.namespace, Name: event},
		FirstTimestamp: now, LastTimestamp: now, Count: by,
	}
	falls := strings.HasSuffix(name, "3") || strings.HasSuffix(name, "7")
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if event == name {
			if err := f.fixture.Client.Create(ctx, e); !apierrors.IsAlreadyExists(err) {
				return err == nil, nil
			}
		}
		if err := f.fixture.Client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
			return false, nil //nolint:nilerr // the API server is not available
		}
		if e.Message == name { // the response to an earlier attempt was lost
			return true, nil
		}
		if falls && e.Count > 1 {
			e.Count = 1
			_ = f.fixture.Client.Update(ctx, e) // the next attempt sees whether it succeeded
			return false, nil
		}
		e.Count, e.Message, e.LastTimestamp = e.Count+by, name, metav1.Now()
		return f.fixture.Client.Update(ctx, e) == nil, nil
	})
	f.record(name, e.ResourceVersion, by, err)
}

func newEvent(namespace, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:  metav1.NowMicro(), ReportingController: "bongsu.io/chaos", ReportingInstance: "chaos-0",
		Type: corev1.EventTypeNormal, Reason: reason, Action: "Flood", Note: name,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name},
	}
}

// end stops the flood and returns the names of its Events.
func (f *flood) end() []string {
	f.fixture.t.Helper()
	f.stop()
	return f.wait()
}

func (f *flood) wait() []string {
	f.fixture.t.Helper()
	f.writers.Wait()
	if f.err != nil {
		f.fixture.t.Fatal(f.err)
	}
	return f.created
}
