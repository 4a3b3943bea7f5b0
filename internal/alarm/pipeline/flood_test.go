package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// threads is a webhook that answers like a receiver with a thread for each group.
type threads struct {
	notify.Notifier

	mu sync.Mutex
	// continued are the threads to which the messages of each group were sent, by pod.
	continued map[string][]string
}

func (n *threads) SendInGroup(ctx context.Context, key string, body []byte, reference string) (notify.Threaded, error) {
	if err := n.Send(ctx, key, body); err != nil {
		return notify.Threaded{}, err
	}
	var m message.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return notify.Threaded{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := "digest"
	if m.Group != nil {
		pod = m.Group.By[0].Value
	}
	n.continued[pod] = append(n.continued[pod], reference)
	return notify.Threaded{Reference: "thread of " + pod}, nil
}

func (n *threads) last(pod string) (reference string, messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if messages = len(n.continued[pod]); messages == 0 {
		return "", 0
	}
	return n.continued[pod][messages-1], messages
}

// flooded is an operator with an alarm that groups by pod, and an HTTP receiver with a limit
// of one message in a second.
type flooded struct {
	t        *testing.T
	sink     *sink.Sink
	threads  *threads
	outbox   *outbox.Store
	batches  chan source.Batch
	position uint64
}

func startFlooded(t *testing.T) *flooded {
	t.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	t.Cleanup(client.Close)
	f := &flooded{t: t, sink: sink.New(t), batches: make(chan source.Batch)}
	hook, err := webhook.New(client, webhook.Config{URL: f.sink.URL(), Clock: clock.RealClock{}})
	must(t, err)
	f.threads = &threads{Notifier: hook, continued: map[string][]string{}}
	f.outbox, err = outbox.Open(t.Context(), t.TempDir(), outbox.WithComposer(ComposeGroup))
	must(t, err)
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "crashes"}, UID: "crashes", Receivers: []string{"ops"},
		Spec: v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{}},
			Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32), IntervalSeconds: new(int32)},
		},
	})
	must(t, err)
	alarms := NewAlarms()
	alarms.Set("crashes", "1", compiled)
	dispatcher := notify.NewDispatcher(f.outbox, noop{}, clock.RealClock{}, logr.Discard(), notify.Options{})
	dispatcher.Configure(notify.Receiver{Key: "ops", Notifier: f.threads, Limits: []notify.Limit{{Every: time.Second}}})
	p := New(Config{
		ClusterUID: "cluster", Outbox: f.outbox, Checkpoint: &memoryCheckpoint{}, Dispatcher: dispatcher, Alarms: alarms,
		Enricher: noop{}, Reporter: noop{}, Clock: clock.RealClock{}, Log: logr.Discard(),
		Observe:    func(context.Context, []alarm.Occurrence) {},
		LoadAlarms: func(context.Context) error { return nil },
		Source: sourceFunc(func(ctx context.Context, handle source.Handler) {
			for {
				select {
				case b := <-f.batches:
					must(t, handle(ctx, b))
				case <-ctx.Done():
					return
				}
			}
		}),
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-done)
		must(t, f.outbox.Close())
	})
	return f
}

// crash sends a batch in which each of the pods crashed twice.
func (f *flooded) crash(pods ...string) {
	var b source.Batch
	now := clock.RealClock{}.Now()
	for _, pod := range pods {
		f.position++
		b.Occurrences = append(b.Occurrences, alarm.Occurrence{
			Event: alarm.Event{
				UID: fmt.Sprint(f.position), Count: 2, Reason: "BackOff", Namespace: "shop",
				Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: pod},
			},
			Increase: 2, Position: f.position, ObservedAt: now,
		})
	}
	b.Position = f.position
	f.batches <- b
}

// await waits until the receiver got this number of occurrences and the outbox is empty. It
// returns all messages.
func (f *flooded) await(occurrences int64) (messages []message.Message) {
	f.t.Helper()
	if !f.sink.Wait(2*time.Minute, func([]sink.Request) bool {
		var sum int64
		messages = nil
		for _, r := range f.sink.Accepted() {
			var m message.Message
			must(f.t, json.Unmarshal(r.Body, &m))
			messages, sum = append(messages, m), sum+m.Count
		}
		return sum >= occurrences
	}) {
		f.t.Fatalf("not all of %d occurrences arrived: %+v", occurrences, messages)
	}
	gomega.NewWithT(f.t).Eventually(func() outbox.Size { return f.outbox.Size() }, "2m", "10ms").Should(
		gomega.And(gomega.HaveField("Entries", int64(0)), gomega.HaveField("Held", int64(0))))
	return messages
}

func TestFloodOfGroupsIsOneDigestAndTheGroupsContinue(t *testing.T) {
	begin := clock.RealClock{}.Now()
	f := startFlooded(t)
	f.crash("web-0")
	f.await(2)
	time.Sleep(time.Second) // then the limit allows the first message of the flood

	var pods []string
	for i := range 1_000 {
		pods = append(pods, fmt.Sprint("web-", i))
	}
	f.crash(pods...)
	messages := f.await(2 + 2_000)
	if len(messages) != 3 || !messages[2].Digest {
		t.Fatalf("%d messages, want one before the flood, the first of the flood and a digest", len(messages))
	}
	digest := messages[2]
	if digest.Count != 1_998 || digest.Title != "shop: BackOff (999 pods)" || digest.Group != nil || digest.Alarm.Name != "crashes" {
		t.Errorf("digest %q: count %d, group %+v, alarm %v", digest.Title, digest.Count, digest.Group, digest.Alarm)
	}
	if !strings.HasPrefix(digest.Text, "1998 × BackOff Pod: shop/web-") || !strings.HasSuffix(digest.Text, " and 996 more") {
		t.Errorf("the text of the digest is %q", digest.Text)
	}

	first := messages[1].Group.By[0].Value
	threadless := "web-1" // only the digest contains it
	if first == threadless {
		threadless = "web-2"
	}
	for i, pod := range []string{"web-0", threadless, threadless} {
		f.crash(pod)
		messages = f.await(2 + 2_000 + 2*int64(i+1))
		if last := messages[len(messages)-1]; last.Group == nil || last.Group.First || last.Group.By[0].Value != pod {
			t.Errorf("after the digest: %+v", last.Group)
		}
	}
	if _, n := f.threads.last("digest"); n > 0 {
		t.Error("the digest was sent to a thread")
	}
	if reference, _ := f.threads.last("web-0"); reference != "thread of web-0" {
		t.Errorf("web-0, which had a thread before, continued in %q", reference)
	}
	if reference, n := f.threads.last(threadless); n != 2 || reference != "thread of "+threadless {
		t.Errorf("%s, first sent in the digest, continued in %q with message %d", threadless, reference, n)
	}
	if most := 1 + int(clock.RealClock{}.Since(begin)/time.Second); len(f.sink.Requests()) > most {
		t.Errorf("%d requests, want at most %d", len(f.sink.Requests()), most)
	}
}
