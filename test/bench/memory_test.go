package bench

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const (
	liveEvents = 100_000
	teams      = 100
	liveAlarms = 1_000
	// memoryLimit is what the operator may occupy at any time, in bytes.
	memoryLimit = 120 << 20
	// settled is how long nothing may happen before memory is read: longer than
	// the periods in which status and mirror are written.
	settled = 12 * time.Second
	// patience is how long any one thing may take.
	patience = 5 * time.Minute
)

// BenchmarkMemory measures what `bongsu-operator`, a process of its own, occupies
// with 100,000 live Events and 1,000 alarms: after its first start, when it has
// learnt all counts from the API server; after a second one, when it has them
// from its ledger; and after a flood of 10,000 Events more, all of which match.
// Both the memory that is resident in the end (MB) and the most that ever was
// (peak-MB) must stay below 120 MB.
func BenchmarkMemory(b *testing.B) {
	c := cluster.Start(b)
	createAlarms(b, c)
	createEvents(b, c, "seed", liveEvents)
	bongsu, dataDir := binary.Operator(b, b.TempDir()), b.TempDir()
	for _, phase := range []struct {
		name string
		work func(b *testing.B)
	}{
		{"start=first", func(*testing.B) {}},
		{"start=again", func(*testing.B) {}},
		{"start=again,flood=10000", func(b *testing.B) { flood(b, c) }},
	} {
		b.Run(phase.name, func(b *testing.B) {
			for b.Loop() {
				former := readMirror(b, c)
				o := startOperator(b, c, bongsu, dataDir)
				awaitWork(b, c, former)
				phase.work(b)
				time.Sleep(settled)
				report(b, o.memory(b))
				o.stop(b)
			}
		})
	}
}

func report(b *testing.B, m memory) {
	b.Helper()
	megabytes := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	b.ReportMetric(megabytes(m.resident), "MB")
	b.ReportMetric(megabytes(m.peak), "peak-MB")
	b.ReportMetric(megabytes(memoryLimit), "limit-MB")
	b.ReportMetric(0, "ns/op")
	if m.resident > memoryLimit || m.peak > memoryLimit {
		b.Errorf("%.0f MB are resident and %.0f MB were, beyond the limit of %.0f MB",
			megabytes(m.resident), megabytes(m.peak), megabytes(memoryLimit))
	}
}

// awaitWork returns when a new term has begun and has read how far Events have
// come, and every alarm is in force.
func awaitWork(b *testing.B, c *cluster.Cluster, former checkpoint.Checkpoint) {
	b.Helper()
	await(b, "the operator is at work", func() bool {
		now := readMirror(b, c)
		ready := countAlarms(b, c, func(s *v1alpha1.AlarmStatus) int64 {
			if meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
				return 1
			}
			return 0
		})
		return now.Epoch != former.Epoch && now.Position > 0 && ready == liveAlarms
	})
}

func await(b *testing.B, what string, condition func() bool) {
	b.Helper()
	for begun := time.Now(); !condition(); time.Sleep(time.Second) {
		if time.Since(begun) > patience {
			b.Fatalf("%v have passed, and still not: %s", patience, what)
		}
	}
}

// readMirror returns what the operator has told the cluster; nothing before its
// first start.
func readMirror(b *testing.B, c *cluster.Cluster) checkpoint.Checkpoint {
	b.Helper()
	m, _, err := checkpoint.NewStore(c.Client, "bongsu-system").Read(b.Context())
	must(b, err)
	return m
}

// countAlarms adds up what there is in each alarm's status.
func countAlarms(b *testing.B, c *cluster.Cluster, number func(*v1alpha1.AlarmStatus) int64) (sum int64) {
	b.Helper()
	var alarms v1alpha1.AlarmList
	must(b, c.Client.List(b.Context(), &alarms))
	for i := range alarms.Items {
		sum += number(&alarms.Items[i].Status)
	}
	return sum
}

// flood creates Events that match and returns when all of them are delivered.
func flood(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	const n = 10_000
	createEvents(b, c, "flood", n)
	await(b, "the flood is delivered", func() bool {
		return countAlarms(b, c, func(s *v1alpha1.AlarmStatus) int64 { return s.Delivered }) >= n
	})
}

func team(i int) string { return fmt.Sprintf("team-%d", i%teams) }

// createAlarms has each team write ten alarms, as developers do: some by reason
// alone, some with an expression, some with a message of their own.
func createAlarms(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	for i := range teams {
		meta := metav1.ObjectMeta{Name: team(i)}
		must(b, c.Client.Create(b.Context(), &corev1.Namespace{ObjectMeta: meta}))
		receiver := &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: team(i), Name: "console"}}
		receiver.Spec.Log = &v1alpha1.LogReceiver{}
		must(b, c.Client.Create(b.Context(), receiver))
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range liveAlarms {
		group.Go(func() error { return c.Client.Create(b.Context(), newAlarm(i)) })
	}
	must(b, group.Wait())
}

func newAlarm(i int) *v1alpha1.Alarm {
	match := v1alpha1.EventMatch{Kinds: []string{"Pod"}, Reasons: []string{"BackOff", "Unhealthy", "FailedMount"}}
	var message v1alpha1.AlarmMessage
	switch kind := i / teams; {
	case kind == 0: // the one that the flood matches
		match.Reasons = []string{"Flood"}
	case kind%2 == 0:
		match.Expression = `event.count > 3 && object.metadata.labels["tier"] == "front"`
	case kind%3 == 0:
		message = v1alpha1.AlarmMessage{
			Title: `${object.metadata.name} is in trouble: ${event.reason}`,
			Text:  "${event.note}\n${string(event.count)} times since ${string(event.firstSeen)}",
		}
	}
	return &v1alpha1.Alarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: team(i), Name: fmt.Sprintf("alarm-%d", i)},
		Spec: v1alpha1.NamespacedAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{match}, Message: message},
			Receivers: []v1alpha1.ReceiverReference{{Name: "console"}},
		},
	}
}

// createEvents creates Events in all teams' namespaces.
func createEvents(b *testing.B, c *cluster.Cluster, prefix string, n int) {
	b.Helper()
	reason := "Scheduled"
	if prefix == "flood" {
		reason = "Flood"
	}
	clientset := newClientset(b, c)
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error {
			event := podEvent(team(i), fmt.Sprintf("%s-%d", prefix, i), reason)
			_, err := clientset.EventsV1().Events(event.Namespace).Create(b.Context(), event, metav1.CreateOptions{})
			return err
		})
	}
	must(b, group.Wait())
}
