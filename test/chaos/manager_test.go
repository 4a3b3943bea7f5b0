package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/process"
)

// operatorNamespace contains the operator's own objects.
const operatorNamespace = "bongsu-system"

// manager is an operator that runs as a separate process with the operator's service account.
// It can be started again. Its log contains the output of all its processes.
type manager struct {
	t       *testing.T
	fixture *fixture
	dataDir string
	args    []string
	log     *cluster.Buffer

	process *process.Process
	killed  []kill
	// ended reports that the test has stopped the process.
	ended bool
}

// newManager returns a manager that has not been started. It deletes the checkpoint of earlier
// ones.
func newManager(s *fixture, args ...string) *manager {
	s.t.Helper()
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: checkpoint.Name}}
	if err := client.IgnoreNotFound(s.Client.Delete(s.t.Context(), old)); err != nil {
		s.t.Fatal(err)
	}
	return newReplica(s, args...)
}

// newReplica is newManager for an additional replica: it keeps the checkpoint.
func newReplica(s *fixture, args ...string) *manager {
	s.t.Helper()
	dir := s.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := s.WriteServiceAccountKubeconfig(s.t.Context(), operatorNamespace, "bongsu", kubeconfig); err != nil {
		s.t.Fatal(err)
	}
	m := &manager{t: s.t, fixture: s, dataDir: filepath.Join(dir, "data"), log: &cluster.Buffer{}}
	// On a slow machine, nearly all Events of a flood wait at the same time. They need more than
	// the share of a namespace in an outbox of the default size.
	m.args = append([]string{"--kubeconfig", kubeconfig, "--cluster-name", "test", "--outbox-max-bytes", "2Gi"}, args...)
	s.managers = append(s.managers, m)
	s.t.Cleanup(m.cleanUp)
	return m
}

func (m *manager) start() {
	m.t.Helper()
	p, err := process.Start(m.log, append(m.args, "--data-dir", m.dataDir)...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.process, m.ended = p, false
}

// startReady starts the manager and waits until it has read the position of Events, so that it
// misses no later one. Use it for the first start.
func (m *manager) startReady() {
	m.t.Helper()
	m.start()
	gomega.NewWithT(m.t).Eventually(func() (uint64, error) {
		if !m.process.Alive() {
			return 0, gomega.StopTrying("the manager exited")
		}
		now, err := m.fixture.checkpoint()
		return now.Position, err
	}).WithTimeout(patience).Should(gomega.BeNumerically(">", 0))
}

// logsAgain returns a function that reports whether the log contains the text more often than
// now.
func (m *manager) logsAgain(text string) func() bool {
	before := strings.Count(m.log.String(), text)
	return func() bool { return strings.Count(m.log.String(), text) > before }
}

// kill describes one kill of a manager.
type kill struct {
	// begun is the time of the kill. At gone, all requests of the process were recorded.
	begun, gone time.Time
	// checkpoint was read just before the kill, so the last one may be newer.
	checkpoint checkpoint.Checkpoint
}

// kill kills the process with SIGKILL and waits until its requests are recorded.
func (m *manager) kill() {
	m.t.Helper()
	last, err := m.fixture.checkpoint()
	if err != nil {
		m.t.Fatal(err)
	}
	if !m.process.Alive() {
		m.t.Fatalf("the manager exited unexpectedly: %v", m.process.Result())
	}
	k := kill{begun: time.Now(), checkpoint: last}
	m.end()
	for _, r := range m.fixture.receivers {
		if !r.AwaitHangUp(10 * time.Second) {
			m.t.Logf("receiver %s is still connected after the kill", r.name)
		}
	}
	k.gone = time.Now()
	m.killed = append(m.killed, k)
}

// timeouts returns the number of requests to a receiver that timed out and were retried. If the
// machine stalled, the receiver may have accepted such a request.
func (m *manager) timeouts(r *receiver) int {
	n := 0
	for line := range strings.Lines(m.log.String()) {
		if strings.Contains(line, "delivery fails") && strings.Contains(line, r.key) && strings.Contains(line, "did not answer in time") {
			n++
		}
	}
	return n
}

func (m *manager) end() {
	m.ended = true
	m.process.Kill()
}

// loseDisk deletes the data directory.
func (m *manager) loseDisk() {
	m.t.Helper()
	if err := os.RemoveAll(m.dataDir); err != nil {
		m.t.Fatal(err)
	}
}

func (m *manager) cleanUp() {
	if m.process == nil {
		return
	}
	if !m.process.Alive() && !m.ended {
		m.t.Errorf("the manager exited unexpectedly: %v", m.process.Result())
	}
	m.end()
	if m.t.Failed() {
		m.t.Logf("the end of the manager's log:\n%s", tail(m.log.String()))
	}
}

// tail returns the end of a log, with short lines.
func tail(log string) string {
	const lines, columns = 25, 400
	all := strings.Split(log, "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), columns)]
	}
	return strings.Join(all, "\n")
}
