package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const notebookManifests = `
{apiVersion: v1, kind: Namespace, metadata: {name: lab}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: lab}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: e2e
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %q}
---
apiVersion: bongsu.io/v1alpha1
kind: Jupyter
metadata: {name: research, namespace: lab}
spec:
  image: %q
  storage: {size: 1Gi, storageClassName: e2e}
  culling: {idleTimeoutSeconds: 60, warningSeconds: 20, periodSeconds: 10}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: notebook, imagePullPolicy: Never}]
`

// startNotebook creates a notebook, sends requests to its server as a user does, and creates
// a file. After that, the notebook is idle.
func (w *world) startNotebook(t *testing.T) {
	volume, err := w.worker.MakeVolume("lab")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, fmt.Sprintf(notebookManifests, volume, notebookImage))
	w.await(t, "jupyter/research", "lab", condition("Ready"), "True")

	g := NewWithT(t)
	token := w.token(t)
	g.Eventually(func() int { status, _ := w.ask(t, http.MethodGet, "/api/status", token, ""); return status }).Should(Equal(http.StatusOK))
	status, _ := w.ask(t, http.MethodGet, "/api/status", "not-"+token, "")
	g.Expect(status).To(Equal(http.StatusForbidden))
	status, body := w.ask(t, http.MethodPut, "/api/contents/kept.txt", token, `{"type": "file", "format": "text", "content": "as it was"}`)
	g.Expect(status).To(Equal(http.StatusCreated), body)
	w.openNotebook(t)
}

// openNotebook reads the file through `bongsu open`.
func (w *world) openNotebook(t *testing.T) {
	g := NewWithT(t)
	var out, progress cluster.Buffer
	open := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "bongsu"), "open", "jupyter/research", "-n", "lab",
		"--no-browser", "--print-url", "--kubeconfig", w.Kubeconfig())
	open.Stdout, open.Stderr = &out, &progress
	g.Expect(open.Start()).To(Succeed())
	g.Eventually(out.String).Should(HaveSuffix("\n"), progress.String)
	address, err := url.Parse(strings.TrimSpace(out.String()))
	g.Expect(err).NotTo(HaveOccurred())
	address.Path = "/api/contents/kept.txt"
	response, err := http.Get(address.String())
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(io.ReadAll(response.Body)).To(ContainSubstring("as it was"), progress.String)
	g.Expect(open.Process.Signal(os.Interrupt)).To(Succeed())
	g.Expect(open.Wait()).To(Succeed(), progress.String)
	g.Expect(progress.String()).NotTo(ContainSubstring(w.token(t)))
}

// cullNotebook waits until the notebook is stopped, starts it again, and checks the file.
func (w *world) cullNotebook(t *testing.T) {
	w.await(t, "jupyter/research", "lab", "{.spec.suspend}", "true")
	w.await(t, "pods", "lab", "{.items[*].metadata.name}", "")
	w.kubectl(t, "patch", "jupyter", "research", "-n", "lab", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	w.await(t, "jupyter/research", "lab", condition("Ready"), "True")
	g := NewWithT(t)
	g.Eventually(func() string {
		_, body := w.ask(t, http.MethodGet, "/api/contents/kept.txt", w.token(t), "")
		return body
	}).Should(ContainSubstring("as it was"))
}

// token returns the notebook's token.
func (w *world) token(t *testing.T) string {
	t.Helper()
	token, err := base64.StdEncoding.DecodeString(w.get(t, "secret/research-token", "lab", "{.data.token}"))
	if err != nil || len(token) == 0 {
		t.Fatalf("cannot decode the notebook's token: %v", err)
	}
	return string(token)
}

// ask sends a request to the server through its Service. status is 0 if there is no response.
func (w *world) ask(t *testing.T, method, path, token, body string) (status int, answer string) {
	t.Helper()
	service := w.get(t, "service/research", "lab", "{.spec.clusterIP}")
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+service+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "token "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// checkApps creates three apps with health checks: memcached by a command, a server by HTTP,
// and an app whose check command never ends.
func (w *world) checkApps(t *testing.T) {
	w.apply(t, fmt.Sprintf(apps, memcachedImage, memcachedImage, memcachedImage))
	t.Run("memcached is checked by a command", w.checkMemcached)
	t.Run("a server is checked by HTTP", func(t *testing.T) {
		w.await(t, "appservice/web", "apps", condition("Healthy"), "True")
	})
	t.Run("a command that hangs is killed in the container", w.endHungCheck)
}

const apps = `
{apiVersion: v1, kind: Namespace, metadata: {name: apps}}
---
# The shell continues after memcached is killed, so that the kubelet does not notice.
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: cache, namespace: apps}
spec:
  size: 2
  image: %q
  ports: [{name: memcache, containerPort: 11211}]
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, imagePullPolicy: Never, command: [sh, -c, "trap exit TERM; memcached & while :; do sleep 1; done"]}
  healthCheck:
    exec: {command: [sh, -c, "printf 'stats\\r\\nquit\\r\\n' | nc -w 1 127.0.0.1 11211 | grep -q 'STAT pid'"]}
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 2
    remedy: Restart
---
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: web, namespace: apps}
spec:
  size: 1
  image: %q
  ports: [{name: http, containerPort: 8080}]
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, imagePullPolicy: Never, command: [sh, -c, "echo well >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]}
  healthCheck:
    httpGet: {path: /index.html, port: http}
    periodSeconds: 5
---
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: hung, namespace: apps}
spec:
  size: 1
  image: %q
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, imagePullPolicy: Never}
  healthCheck:
    exec: {command: [sleep, "424242"]}
    periodSeconds: 30
    timeoutSeconds: 1
    failureThreshold: 1
`

func (w *world) checkMemcached(t *testing.T) {
	w.await(t, "appservice/cache", "apps", condition("Healthy"), "True")
	pods := strings.Fields(w.get(t, "appservice/cache", "apps", "{.status.nodes[*]}"))
	if len(pods) != 2 {
		t.Fatalf("status.nodes = %v, want two pods", pods)
	}
	victim := pods[0]
	w.kubectl(t, "exec", victim, "-n", "apps", "--", "sh", "-c", "kill -9 $(pidof memcached)")

	g := NewWithT(t)
	g.Eventually(func() string { return w.get(t, "events", "apps", "{.items[*].message}") }).
		Should(ContainSubstring(victim), "a Warning names the pod")
	g.Eventually(func() string { return w.get(t, "appservice/cache", "apps", "{.status.nodes[*]}") }).
		ShouldNot(ContainSubstring(victim), "the pod is replaced")
	w.await(t, "appservice/cache", "apps", condition("Healthy"), "True")
	w.await(t, "appservice/cache", "apps", "{.status.readyReplicas}", "2")
}

func (w *world) endHungCheck(t *testing.T) {
	g := NewWithT(t)
	g.Eventually(func() int { return processes(t, "sleep\x00424242\x00") }).Should(BeNumerically(">", 0), "the command runs")
	g.Eventually(func() int { return processes(t, "sleep\x00424242\x00") }).Should(BeZero(), "the command has ended")
	w.await(t, "appservice/hung", "apps", condition("Healthy"), "False")
}

// processes returns the number of processes with this command line. The processes of all
// containers are visible, because they share the PID namespace of the tests.
func processes(t *testing.T, commandLine string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Equal(text, []byte(commandLine)) { // otherwise the process has exited
			count++
		}
	}
	return count
}

// shareSecrets shares a Secret as docs/secrets.md shows.
func (w *world) shareSecrets(t *testing.T) {
	w.kubectl(t, "create", "namespace", "secretsync")
	w.kubectl(t, "create", "secret", "generic", "supersecret", "-n", "secretsync", "--from-literal=ziwon=awesome", "--type=bongsu.io/secretsync")
	w.await(t, "secret/supersecret", "shop", "{.data.ziwon}", "YXdlc29tZQ==")
	w.kubectl(t, "delete", "secret", "supersecret", "-n", "shop")
	w.await(t, "secret/supersecret", "shop", "{.data.ziwon}", "YXdlc29tZQ==")
	w.await(t, "clustersecretshare/secretsync", "", condition("Ready"), "True")
}
