package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// checkApps has three apps checked: memcached by a command that asks it for its
// statistics, a server by HTTP, and one by a command that never ends.
func (w *world) checkApps(t *testing.T) {
	w.apply(t, fmt.Sprintf(apps, memcachedImage, memcachedImage, memcachedImage))
	t.Run("memcached is asked by a command", w.checkMemcached)
	t.Run("a server is asked by HTTP", func(t *testing.T) {
		w.await(t, "appservice/web", "apps", condition("Healthy"), "True")
	})
	t.Run("a command that hangs is ended in the container", w.endHungCheck)
}

const apps = `
{apiVersion: v1, kind: Namespace, metadata: {name: apps}}
---
# A shell stays when memcached is killed, so that no kubelet notices.
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
		t.Fatalf("the app is of the pods %v, want two", pods)
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

// processes counts those of a command line, in whatever container: all of them are in
// the namespace of the tests' processes.
func processes(t *testing.T, commandLine string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Equal(text, []byte(commandLine)) { // else it is gone
			count++
		}
	}
	return count
}
