package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	liveEvents = 100_000
	teams      = 100
	liveAlarms = 1_000
	// memoryLimit is the limit for the operator's memory at any time, in bytes.
	memoryLimit = 120 << 20
	// settled is the idle time before memory is read. It is longer than the intervals at
	// which the status and the checkpoint are written.
	settled = 12 * time.Second
	// patience is the time limit for each step.
	patience = 5 * time.Minute
)

// BenchmarkMemory measures the memory of the operator, as a separate process, with 100,000
// live Events and 1,000 alarms. It measures after the first start, which reads all counts
// from the API server, and after a second one, which reads them from the outbox. Then it
// measures again after 10,000 more Events, which all match. Both the resident memory at the
// end (MB) and its maximum (peak-MB) must stay below 120 MB.
func BenchmarkMemory(b *testing.B) {
	c := cluster.Start(b)
	createAlarms(b, c)
	createEvents(b, c, "seed", size.Scaled(liveEvents))
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
				former := readCheckpoint(b, c)
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
		b.Errorf("%.0f MB are resident, at most %.0f MB were, want at most %.0f MB",
			megabytes(m.resident), megabytes(m.peak), megabytes(memoryLimit))
	}
}

// awaitWork waits until a new leader has read the existing Events and all alarms are ready.
func awaitWork(b *testing.B, c *cluster.Cluster, former checkpoint.Checkpoint) {
	b.Helper()
	await(b, "the operator is ready", func() bool {
		now := readCheckpoint(b, c)
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
			b.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// readCheckpoint returns the operator's checkpoint. It is empty before the first start.
func readCheckpoint(b *testing.B, c *cluster.Cluster) checkpoint.Checkpoint {
	b.Helper()
	m, _, err := checkpoint.NewStore(c.Client, "bongsu-system").Read(b.Context())
	must(b, err)
	return m
}

// countAlarms returns the sum of a number in the status of each alarm.
func countAlarms(b *testing.B, c *cluster.Cluster, number func(*v1alpha1.AlarmStatus) int64) (sum int64) {
	b.Helper()
	var alarms v1alpha1.AlarmList
	must(b, c.Client.List(b.Context(), &alarms))
	for i := range alarms.Items {
		sum += number(&alarms.Items[i].Status)
	}
	return sum
}

// flood creates Events that match and waits until all of them are delivered.
func flood(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	const n = 10_000
	createEvents(b, c, "flood", n)
	await(b, "the flood is delivered", func() bool {
		return countAlarms(b, c, func(s *v1alpha1.AlarmStatus) int64 { return s.Delivered }) >= n
	})
}

func team(i int) string { return fmt.Sprintf("team-%d", i%teams) }

// createAlarms creates ten alarms in each team's namespace, as developers write them: some
// with reasons only, some with an expression, some with their own message.
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
	case kind == 0: // matches the Events of flood
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

// operator is an operator that runs as a separate process.
type operator struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// startOperator starts the operator with its service account. It stops with the benchmark
// at the latest.
func startOperator(b *testing.B, c *cluster.Cluster, binary, dataDir string) *operator {
	b.Helper()
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	must(b, c.WriteServiceAccountKubeconfig(b.Context(), "bongsu-system", "bongsu", kubeconfig))
	o := &operator{}
	o.cmd = exec.Command(binary, "--kubeconfig", kubeconfig, "--data-dir", dataDir)
	o.cmd.Stderr = &o.log
	must(b, o.cmd.Start())
	b.Cleanup(func() { o.stop(b) })
	return o
}

// stop stops the process. A second call does nothing.
func (o *operator) stop(b *testing.B) {
	b.Helper()
	if o.cmd.ProcessState != nil {
		return
	}
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	if err := o.cmd.Wait(); err != nil {
		b.Errorf("the operator failed: %v\n%s", err, &o.log)
	}
}

// memory is the memory of a process, in bytes.
type memory struct{ resident, peak int64 }

func (o *operator) memory(b *testing.B) memory {
	b.Helper()
	return memoryOf(b, o.cmd.Process.Pid)
}

// memoryOf reads the memory of a process from the kernel: VmRSS, and VmHWM, which is its
// maximum so far.
func memoryOf(b *testing.B, pid int) memory {
	b.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skipf("this system does not report the memory of a process: %v", err)
	}
	defer func() { _ = file.Close() }()
	var m memory
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		var kilobytes int64
		switch name {
		case "VmRSS":
			_, err = fmt.Sscan(value, &kilobytes)
			m.resident = kilobytes << 10
		case "VmHWM":
			_, err = fmt.Sscan(value, &kilobytes)
			m.peak = kilobytes << 10
		}
		must(b, err)
	}
	return m
}
