package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

func pendingClaim(t *testing.T, c *cluster.Cluster, namespace string) {
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
		if code != command.ExitOK || !strings.HasPrefix(out, "PersistentVolumeClaim "+ns+"/data is not running yet") {
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
		"no arguments":        {nil, command.ExitUsage, "arg(s)"},
		"no name":             {[]string{"pods"}, command.ExitUsage, "use TYPE/NAME"},
		"an empty name":       {[]string{"pods/"}, command.ExitUsage, "use TYPE/NAME"},
		"too many parts":      {[]string{"pods/a/b"}, command.ExitUsage, "use TYPE/NAME"},
		"both forms":          {[]string{"pods/a", "b"}, command.ExitUsage, "use TYPE/NAME"},
		"an unknown format":   {[]string{"pods/a", "-o", "xml"}, command.ExitUsage, "use text or json"},
		"an unsupported type": {[]string{"secrets/a"}, command.ExitUsage, "secrets cannot be explained: use one of appservices.bongsu.io, deployments.apps,"},
		"an unknown type":     {[]string{"widgets/a"}, command.ExitError, `the server has no type "widgets"`},
		"a missing object":    {[]string{"pods/a"}, command.ExitError, `pods "a" not found`},
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
	lines := strings.Fields(out)
	want := []string{"appservices.bongsu.io", "deployments.apps", "jobs.batch", "jupyters.bongsu.io", "persistentvolumeclaims", "pods", "statefulsets.apps", ":4"}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
	if _, out, _ := runs(t, "__complete", "explain", "-o", ""); out != "text\njson\n:4\n" {
		t.Errorf("got %q", out)
	}
}
