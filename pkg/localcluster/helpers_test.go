package localcluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDirEnv); dir != "" {
		beParent(dir)
		return
	}
	SetDefaultEventuallyTimeout(2 * time.Minute) // a busy machine is slow
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	os.Exit(m.Run())
}

// start starts a cluster that runs until the end of the test.
func start(t *testing.T, config localcluster.Config) *localcluster.Cluster {
	t.Helper()
	needsControlPlane(t)
	config.UnsafeNoFsync, config.GCPercent = true, 200
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	c, err := localcluster.Start(t.Context(), config)
	if errors.Is(err, localcluster.ErrNoAssets) {
		t.Fatal(err)
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { stop(t, c) })
	return c
}

// needsControlPlane marks a test that make test-unit skips, and that make test may run again.
func needsControlPlane(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Attr("rerun", "allowed")
}

func stop(t *testing.T, c *localcluster.Cluster) {
	t.Helper()
	NewWithT(t).Expect(c.Stop(context.Background())).To(Succeed())
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return client
}

// mark creates an object by which marked recognizes the cluster.
func mark(t *testing.T, c *localcluster.Cluster, name string) {
	t.Helper()
	_, err := clientFor(t, c.RESTConfig()).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func marked(t *testing.T, c *localcluster.Cluster, name string) func() error {
	client := clientFor(t, c.RESTConfig())
	return func() error {
		_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
}

// pidOf returns the process ID that the cluster stored for a component.
func pidOf(t *testing.T, dir string, component localcluster.Component) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "run", string(component)+".pid"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(string(data))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return pid
}

// processesOf returns the processes that have a file of the directory among their
// arguments. Without /proc, it returns those that have a pid file.
func processesOf(dir string) []int {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return livingPidFiles(dir)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		line, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if strings.Contains(string(line), dir+"/") && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func livingPidFiles(dir string) []int {
	files, _ := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
	var pids []int
	for _, file := range files {
		data, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(string(data)); err == nil && syscall.Kill(pid, 0) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentDirEnv makes the test binary start a cluster in the directory of its value and
// wait until it is killed.
const parentDirEnv = "LOCALCLUSTER_TEST_PARENT_DIR"

func beParent(dir string) {
	c, err := localcluster.Start(context.Background(), localcluster.Config{Dir: dir, UnsafeNoFsync: true, GCPercent: 200})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	fmt.Println(<-c.Failed())
}
