package chaos

import (
	"io"
	"os"
	"os/exec"
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
)

// operatorNamespace is where the operator's own objects are.
const operatorNamespace = "bongsu-system"

// manager is a `bongsu-operator` that runs as the operator's own service account.
// It lives as often as it is started; its log is that of all its lives.
type manager struct {
	t       *testing.T
	stage   *stage
	dataDir string
	args    []string
	log     *cluster.Buffer

	life   *life
	killed []kill
	// ended says that it was this test's doing that the last life is over.
	ended bool
}

// life is one process.
type life struct {
	cmd   *exec.Cmd
	stdin io.Closer // ends the process, should the test be killed
	ended chan struct{}
	over  time.Time // once ended is closed
}

// newManager returns one that has not been started. Of former ones the cluster
// remembers nothing.
func newManager(s *stage, args ...string) *manager {
	s.t.Helper()
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: checkpoint.Name}}
	if err := client.IgnoreNotFound(s.Client.Delete(s.t.Context(), old)); err != nil {
		s.t.Fatal(err)
	}
	return newReplica(s, args...)
}

// newReplica is newManager for one that joins another.
func newReplica(s *stage, args ...string) *manager {
	s.t.Helper()
	dir := s.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := s.WriteServiceAccountKubeconfig(s.t.Context(), operatorNamespace, "bongsu", kubeconfig); err != nil {
		s.t.Fatal(err)
	}
	m := &manager{t: s.t, stage: s, dataDir: filepath.Join(dir, "data"), log: &cluster.Buffer{}}
	m.args = append([]string{"--kubeconfig", kubeconfig, "--cluster-name", "test"}, args...)
	s.managers = append(s.managers, m)
	s.t.Cleanup(m.cleanUp)
	return m
}

func (m *manager) start() {
	m.t.Helper()
	program, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command(program, append(m.args, "--data-dir", m.dataDir)...)
	cmd.Env = append(os.Environ(), operatorEnv+"=1")
	cmd.Stdout, cmd.Stderr = m.log, m.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	l := &life{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = cmd.Wait() // how it ended is in ProcessState
		l.over = time.Now()
	}()
	m.life, m.ended = l, false
}

// startAtWork returns when no Event escapes it any more. It is for the first start.
func (m *manager) startAtWork() {
	m.t.Helper()
	m.start()
	gomega.NewWithT(m.t).Eventually(func() (uint64, error) {
		if !m.alive() {
			return 0, gomega.StopTrying("the manager ended")
		}
		now, err := m.stage.mirror()
		return now.Position, err
	}).WithTimeout(patience).Should(gomega.BeNumerically(">", 0))
}

// alive says whether the process has not ended.
func (m *manager) alive() bool {
	select {
	case <-m.life.ended:
		return false
	default:
		return true
	}
}

// saidOnceMore tells whether its log says something more often than it did when
// saidOnceMore was called.
func (m *manager) saidOnceMore(text string) func() bool {
	before := strings.Count(m.log.String(), text)
	return func() bool { return strings.Count(m.log.String(), text) > before }
}

// kill is how a life was ended.
type kill struct {
	// begun is when. By gone all that the process had sent was recorded.
	begun, gone time.Time
	// mirror is what it had made of it, or a little less: it is read before.
	mirror checkpoint.Checkpoint
}

// kill ends it as the kernel would: with SIGKILL.
func (m *manager) kill() {
	m.t.Helper()
	last, err := m.stage.mirror()
	if err != nil {
		m.t.Fatal(err)
	}
	if !m.alive() {
		m.t.Fatalf("the manager ended by itself: %v", m.life.cmd.ProcessState)
	}
	k := kill{begun: time.Now(), mirror: last}
	m.end()
	for _, r := range m.stage.receivers {
		if !r.AwaitHangUp(10 * time.Second) {
			m.t.Logf("receiver %s is still connected after the kill", r.name)
		}
	}
	k.gone = time.Now()
	m.killed = append(m.killed, k)
}

// gaveUp is how often it abandoned a message to a receiver because there was no
// answer in time, and tried again. On a machine that stands still for so long the
// message may have been accepted.
func (m *manager) gaveUp(r *receiver) int {
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
	_ = m.life.cmd.Process.Kill() // fails only if it is gone
	<-m.life.ended
	_ = m.life.stdin.Close()
}

// loseDisk deletes the data directory.
func (m *manager) loseDisk() {
	m.t.Helper()
	if err := os.RemoveAll(m.dataDir); err != nil {
		m.t.Fatal(err)
	}
}

func (m *manager) cleanUp() {
	if m.life == nil {
		return
	}
	if !m.alive() && !m.ended {
		m.t.Errorf("the manager ended by itself: %v", m.life.cmd.ProcessState)
	}
	m.end()
	if m.t.Failed() {
		m.t.Logf("the end of the manager's log:\n%s", tail(m.log.String()))
	}
}

// tail is what can be read of a long log.
func tail(log string) string {
	const lines, columns = 25, 400
	all := strings.Split(log, "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), columns)]
	}
	return strings.Join(all, "\n")
}
