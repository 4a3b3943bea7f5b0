package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// inContext returns the path of a kubeconfig whose context has the namespace.
func inContext(t *testing.T, c *cluster.Cluster, namespace string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// runWatch runs the command until it prints the text, and returns its output.
func runWatch(t *testing.T, text string, args ...string) (out, errOut string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr cluster.Buffer
	code := make(chan int)
	go func() { code <- Run(ctx, append([]string{"watch"}, args...), &stdout, &stderr) }()
	NewWithT(t).Eventually(stdout.String).Should(ContainSubstring(text))
	stop()
	if got := <-code; got != command.ExitOK {
		t.Errorf("exit code %d after a signal:\n%s", got, &stderr)
	}
	return stdout.String(), stderr.String()
}

func configMap(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestWatchUsesTheNamespaceOfTheContextUnlessAnotherIsGiven(t *testing.T) {
	c := cluster.Shared(t)
	own, another := c.Namespace(t, nil), c.Namespace(t, nil)
	configMap(t, c, own, "mine")
	configMap(t, c, another, "theirs")
	kubeconfig := inContext(t, c, own)
	for name, tc := range map[string]struct {
		args   []string
		out    string
		errOut string
	}{
		"the context's": {nil, " ADDED configmaps/mine in " + own + "\n", "cache synced: 1 configmaps in namespace " + own},
		"another":       {[]string{"-n", another}, " ADDED configmaps/theirs in " + another + "\n", "in namespace " + another},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"cm", "--kubeconfig", kubeconfig}, tc.args...)
			out, errOut := runWatch(t, "ADDED", args...)
			if !strings.HasSuffix(out, tc.out) || strings.Count(out, "\n") != 1 || !strings.Contains(errOut, tc.errOut) {
				t.Errorf("got %q and %q; want %q and %q", out, errOut, tc.out, tc.errOut)
			}
		})
	}
	first, last := "configmaps/mine in "+own, "configmaps/theirs in "+another
	if own > another { // the output is sorted
		first, last = last, first
	}
	out, _ := runWatch(t, last, "configmaps", "-A", "--kubeconfig", kubeconfig)
	if !strings.Contains(out, first) {
		t.Errorf("a namespace is missing:\n%s", out)
	}
}

func TestWatchTakesTheContextAndTheUserThatKubectlTakes(t *testing.T) {
	c := cluster.Shared(t)
	own, another := c.Namespace(t, nil), c.Namespace(t, nil)
	configMap(t, c, own, "mine")
	kubeconfig := inContext(t, c, another)
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts["second"] = config.Contexts[config.CurrentContext].DeepCopy()
	config.Contexts["second"].Namespace = own
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	if out, _ := runWatch(t, "ADDED", "cm", "--kubeconfig", kubeconfig, "--context", "second"); !strings.Contains(out, "configmaps/mine in "+own) {
		t.Errorf("got %q", out)
	}
	for want, args := range map[string][]string{
		`you may not watch configmaps in namespace `:                                         {"--as", "stranger"},
		"--context third cannot be used: list the contexts with kubectl config get-contexts": {"--context", "third"},
	} {
		var out, errOut cluster.Buffer
		code := Run(t.Context(), append([]string{"watch", "cm", "--kubeconfig", kubeconfig}, args...), &out, &errOut)
		if code != command.ExitError || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d: %s", args, code, &errOut)
		}
	}
	var out, errOut cluster.Buffer
	if Run(t.Context(), []string{"__complete", "watch", "--kubeconfig", kubeconfig, "--context", ""}, &out, &errOut); !strings.Contains(out.String(), "second\n") {
		t.Errorf("contexts are completed with %q", &out)
	}
}

func TestWatchPrintsJSON(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	configMap(t, c, ns, "a")
	out, _ := runWatch(t, ns, "cm", "--kubeconfig", c.Kubeconfig(), "-n", ns, "-o", "json")
	var record struct {
		Type, Key string
		Object    map[string]any
	}
	if err := json.Unmarshal([]byte(out), &record); err != nil || record.Type != "ADDED" || record.Key != ns+"/a" || record.Object["kind"] != "ConfigMap" {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestWatchOfAnUnknownTypeFails(t *testing.T) {
	c := cluster.Shared(t)
	var out, errOut cluster.Buffer
	code := Run(t.Context(), []string{"watch", "widgets", "--kubeconfig", c.Kubeconfig()}, &out, &errOut)
	if code != command.ExitError || !strings.Contains(errOut.String(), `error: the server has no type "widgets"`) {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
}

func TestWatchCompletesTypesAndFormats(t *testing.T) {
	c := cluster.Shared(t)
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"types":      {[]string{"--kubeconfig", c.Kubeconfig(), ""}, []string{"pods", "deployments.apps", "alarms.bongsu.io", ":4"}},
		"one type":   {[]string{"--kubeconfig", c.Kubeconfig(), "pods", ""}, []string{":4"}},
		"formats":    {[]string{"-o", ""}, []string{"text", "json", ":4"}},
		"no cluster": {[]string{"--kubeconfig", "none", ""}, []string{":4"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut cluster.Buffer
			if code := Run(t.Context(), append([]string{"__complete", "watch"}, tc.args...), &out, &errOut); code != command.ExitOK {
				t.Errorf("exit code %d: %s", code, &errOut)
			}
			lines := strings.Fields(out.String())
			for _, want := range tc.want {
				if !slices.Contains(lines, want) {
					t.Errorf("%q is missing in:\n%s", want, &out)
				}
			}
			if len(tc.want) == 1 && len(lines) != 1 {
				t.Errorf("got %q", lines)
			}
		})
	}
}
