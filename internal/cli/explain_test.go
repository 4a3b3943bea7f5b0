package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// runs executes a command and returns its exit code and output.
func runs(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr cluster.Buffer
	code = Run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func pendingClaim(t *testing.T, c *cluster.Cluster, namespace string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := c.Client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestExplainAcceptsTheNamesThatKubectlAccepts(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	pendingClaim(t, c, ns)
	kubeconfig := inContext(t, c, ns)
	for _, args := range [][]string{
		{"pvc/data"}, {"pvc", "data"}, {"persistentvolumeclaims/data"}, {"PersistentVolumeClaim", "data"}, {"pvc/data", "-n", ns},
	} {
		code, out, errOut := runs(t, append([]string{"explain", "--kubeconfig", kubeconfig}, args...)...)
		if code != command.ExitOK || !strings.HasPrefix(out, "PersistentVolumeClaim "+ns+"/data is not ready yet") {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errOut)
		}
	}
	code, out, errOut := runs(t, "explain", "pvc/data", "--kubeconfig", kubeconfig, "-o", "json")
	var x struct{ Kind, Name, State string }
	if err := json.Unmarshal([]byte(out), &x); err != nil || code != command.ExitOK || x.Kind != "PersistentVolumeClaim" || x.Name != "data" || x.State != "Waiting" {
		t.Errorf("exit code %d: %s%s, %v", code, out, errOut, err)
	}
}

func TestExplainAcceptsEveryNameOfAnAppService(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: v1alpha1.AppServiceSpec{Size: 1}}
	if err := c.Client.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	kubeconfig := inContext(t, c, ns)
	for _, name := range []string{"appsvc", "appservice", "appservices", "AppService", "appservices.bongsu.io"} {
		code, out, errOut := runs(t, "explain", "--kubeconfig", kubeconfig, name+"/web")
		if code != command.ExitOK || !strings.HasPrefix(out, "AppService "+ns+"/web is not running yet") {
			t.Errorf("%q: exit code %d: %s%s", name, code, out, errOut)
		}
	}
}

func TestExplainExplainsInvalidCommandLines(t *testing.T) {
	c := cluster.Shared(t)
	kubeconfig := inContext(t, c, c.Namespace(t, nil))
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"all namespaces":    {[]string{"pods/a", "-A"}, command.ExitUsage, "--all-namespaces excludes"},
		"no name":           {[]string{"pods"}, command.ExitUsage, "use TYPE/NAME"},
		"an empty name":     {[]string{"pods/"}, command.ExitUsage, "use TYPE/NAME"},
		"too many parts":    {[]string{"pods/a/b"}, command.ExitUsage, "use TYPE/NAME"},
		"both forms":        {[]string{"pods/a", "b"}, command.ExitUsage, "use TYPE/NAME"},
		"an unknown format": {[]string{"pods/a", "-o", "xml"}, command.ExitUsage, "use text or json"},
		"any type":          {[]string{"secrets/a"}, command.ExitError, `secrets "a" not found`},
		"an unknown type":   {[]string{"widgets/a"}, command.ExitError, `the server has no type "widgets"`},
		"a missing object":  {[]string{"pods/a"}, command.ExitError, `pods "a" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"explain", "--kubeconfig", kubeconfig}, tc.args...)...)
			if code != tc.code || !strings.Contains(errOut, tc.says) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestExplainCompletesItsTypes(t *testing.T) {
	c := cluster.Shared(t)
	_, out, _ := runs(t, "__complete", "explain", "--kubeconfig", c.Kubeconfig(), "")
	types := strings.Fields(out)
	for _, name := range []string{"appservices.bongsu.io", "ingresses.networking.k8s.io", "nodes", "pods", "priorityclasses.scheduling.k8s.io"} {
		if !slices.Contains(types, name) {
			t.Errorf("%s is missing in %q", name, types)
		}
	}
	if _, out, _ := runs(t, "__complete", "explain", "-o", ""); out != "text\njson\n:4\n" {
		t.Errorf("got %q", out)
	}
}

func TestExplainExplainsAnyTypeByItsConditions(t *testing.T) {
	c := cluster.Shared(t)
	kubeconfig := inContext(t, c, c.Namespace(t, nil))
	code, out, errOut := runs(t, "explain", "--kubeconfig", kubeconfig, "crd/alarms.bongsu.io")
	if code != command.ExitOK || !strings.HasPrefix(out, "CustomResourceDefinition alarms.bongsu.io shows no problem: ") || !strings.Contains(out, "  Established True: ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

func TestExplainPrintsAgainWhatChangesUntilItIsStopped(t *testing.T) {
	c := cluster.Shared(t)
	for name, tc := range map[string]struct {
		args        []string
		first, last string
	}{
		"text": {nil, "/data is not ready yet", "/data shows no problem: it is bound"},
		"JSON": {[]string{"-o", "json"}, `"state":"Waiting"`, `"state":"Running"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := c.Namespace(t, nil)
			claim := pendingClaim(t, c, ns)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var stdout, stderr cluster.Buffer
			code := make(chan int)
			go func() {
				code <- Run(ctx, append([]string{"explain", "pvc/data", "-w", "-n", ns, "--kubeconfig", c.Kubeconfig()}, tc.args...), &stdout, &stderr)
			}()
			g.Eventually(stdout.String, time.Minute).Should(ContainSubstring(tc.first))
			claim.Status.Phase = corev1.ClaimBound
			g.Expect(c.Client.Status().Update(t.Context(), claim)).To(Succeed())
			g.Eventually(stdout.String, time.Minute).Should(ContainSubstring(tc.last))
			stop()
			if got := <-code; got != command.ExitOK {
				t.Errorf("exit code %d after a signal:\n%s", got, &stderr)
			}
			if lines := strings.Split(strings.TrimSpace(stdout.String()), "\n"); name == "JSON" && (len(lines) != 2 || !json.Valid([]byte(lines[0]))) {
				t.Errorf("want a line of JSON for each of two states, got %q", lines)
			}
		})
	}
}

func TestExplainWithoutAnObjectReportsProblemsInTheExitCode(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	kubeconfig := inContext(t, c, ns)
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return runs(t, append([]string{"explain", "--kubeconfig", kubeconfig}, args...)...)
	}
	code, out, errOut := run()
	if code != command.ExitOK || !strings.HasPrefix(out, "Namespace "+ns+": no problem, 0 objects of Kubernetes and Bongsu checked\n") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: v1alpha1.AppServiceSpec{Size: 1}}
	if err := c.Client.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut = run(); code != command.ExitOK || !strings.Contains(out, "no problem, 1 object") {
		t.Errorf("an app that has just been created: exit code %d: %s%s", code, out, errOut)
	}
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "missing", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	if err := c.Client.Create(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = run()
	if code != command.ExitProblems || !strings.Contains(out, "Failing  ServiceNotFound  Ingress "+ns+"/web") || !strings.Contains(errOut, "found problems: 1") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	var overview struct {
		Problems []struct {
			Objects []struct{ Namespace, Name string }
		}
	}
	code, out, errOut = run("-A", "-o", "json")
	if err := json.Unmarshal([]byte(out), &overview); err != nil || code != command.ExitProblems || len(overview.Problems) == 0 {
		t.Errorf("exit code %d: %s%s, %v", code, out, errOut, err)
	}
	user := cluster.Kubeconfig(t, c.User(t, ns, cluster.Rule("", "pods", "list")))
	code, out, errOut = runs(t, "explain", "--kubeconfig", user, "-n", ns)
	if code != command.ExitError || !strings.Contains(out, "could not read appservices.bongsu.io: you may not list them\n") || !strings.Contains(errOut, "the overview is incomplete") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}
