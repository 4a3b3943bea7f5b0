package chart

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

const repository = "../../.."

func TestTheEmbeddedChartMatchesTheFolder(t *testing.T) {
	embedded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := loader.Load(filepath.Join(repository, "charts", root))
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, f := range embedded.Raw {
		got[f.Name] = string(f.Data)
	}
	for _, f := range onDisk.Raw {
		if f.Name != ".helmignore" {
			want[f.Name] = string(f.Data)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder (-) and the binary (+):\n%s", diff)
	}
}

// Helm stores a release in a Secret, whose limit is 1 MiB. The rest is for later versions.
func TestAHelmReleaseFitsIntoASecret(t *testing.T) {
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Everything("ops")
	if err != nil {
		t.Fatal(err)
	}
	var manifest, packed bytes.Buffer
	if err := WriteYAML(&manifest, objects); err != nil {
		t.Fatal(err)
	}
	release, err := json.Marshal(map[string]any{"chart": c, "manifest": manifest.String()})
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(release); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const room = 1 << 20
	if size := base64.StdEncoding.EncodedLen(packed.Len()); size > room*2/3 {
		t.Errorf("a release takes %d of %d bytes: more than two thirds", size, room)
	} else {
		t.Logf("a release takes %d of %d bytes", size, room)
	}
}

func TestTheKustomizeBaseMatchesTheChartWithDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("needs kubectl, which is built with the control plane")
	}
	dir, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	built, err := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl"), "kustomize", filepath.Join(repository, "config")).Output()
	if err != nil {
		t.Fatal(err)
	}
	base, err := config.Decode(bytes.NewReader(built))
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := Render("bongsu-system", values)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(rendered), byName(base)); diff != "" {
		t.Errorf("chart (-) and kustomize (+):\n%s", diff)
	}
	// kubectl applies them in this order.
	position := func(kind string) int {
		return slices.IndexFunc(base, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	}
	for _, later := range []string{"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Deployment"} {
		if binding := position("ValidatingAdmissionPolicyBinding"); binding < 0 || position(later) < binding {
			t.Errorf("kustomize: %s comes before the admission policies", later)
		}
	}
}

// byName indexes objects by kind and name, without the annotation for Helm.
func byName(objects []*unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for _, o := range objects {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "helm.sh/resource-policy")
		all[o.GetKind()+" "+o.GetName()] = o.Object
	}
	return all
}

func TestManifestsAreInTheOrderOfTheirDependencies(t *testing.T) {
	values, err := Values(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Render("ops", values)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.GetKind())
	}
	if diff := cmp.Diff(append(order, "Deployment"), slices.Compact(kinds)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
