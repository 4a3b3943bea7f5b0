package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestASchemaBecomesOneRowPerField(t *testing.T) {
	text := schema{Type: "string", Description: "name of it.", MinLength: new(int64(1)), MaxLength: new(int64(9)), Pattern: "a|b"}
	entry := schema{Type: "object", Properties: map[string]schema{"name": text}, Required: []string{"name"}}
	s := schema{Type: "object", Properties: map[string]schema{
		"selector": {Type: "object", Description: "selector of <some>\nthings.\n\nDefault: all.", Properties: map[string]schema{"matchExpressions": {Description: "not listed"}}},
		"entries": {
			Type: "array", Description: "entries of it.", MaxItems: new(int64(3)),
			Items:        &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &entry},
			XValidations: apiextensionsv1.ValidationRules{{Message: "must differ"}},
		},
	}}
	want := []field{
		{"spec.entries", "list of object", "entries of it.<br>Limits: at most 3 entries.<br>Rule: must differ."},
		{"spec.entries[].name", "string", "name of it.<br>**Required.**<br>Limits: 1 to 9 characters, matches `a\\|b`."},
		{"spec.selector", "LabelSelector", "selector of &lt;some> things.<br>Default: all."},
	}
	if d := cmp.Diff(want, fieldsOf("spec", s, true), cmp.AllowUnexported(field{})); d != "" {
		t.Error(d)
	}
}

func TestReasonsAreListedByTheirValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conditions.go")
	const source = `package x

// ConditionReady is True at last.
const ConditionReady = "Ready"

// Reasons of all kinds.
const (
	// ReasonGone: it is
	// gone.
	ReasonGone = "Gone"
)

func unrelated() {}
`
	const want = "## Conditions and reasons\n\n`Ready` is True at last.\n\n" +
		"Reasons of all kinds.\n\n| value | meaning |\n|---|---|\n| `Gone` | it is gone. |\n\n"
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := writeReasons(&got, path); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

func TestThePageContainsAllCommandsThatAreNotHidden(t *testing.T) {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Long: "Tool does things."}
	run := &cobra.Command{Use: "run FILE", Short: "Run it", Example: "  tool run a", Run: nothing}
	run.Flags().Int("times", 1, "how often")
	root.AddCommand(run, &cobra.Command{Use: "secret", Hidden: true, Run: nothing})
	const want = "# Command line reference\n\nThe flag `--help` of each command shows the same.\n\n" +
		"## tool\n\nTool does things.\n\n" +
		"## tool run\n\nRun it.\n\n```\ntool run FILE [flags]\n```\n\n" +
		"Example:\n\n```\n  tool run a\n```\n\n" +
		"Flags:\n\n```\n      --times int   how often (default 1)\n```\n\n"
	var got bytes.Buffer
	if err := commandPage(root)(&got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

func TestAMarkerHasTheReasonAboveIt(t *testing.T) {
	for name, tc := range map[string]struct {
		comment string
		want    []grant
		wrong   bool
	}{
		"one": {
			"// To see\n// them.\n// +kubebuilder:rbac:groups=\"\",resources=pods;nodes,verbs=get;list",
			[]grant{{groups: []string{""}, resources: []string{"pods", "nodes"}, verbs: []string{"get", "list"}, reason: "To see them."}}, false,
		},
		"two for one reason": {
			"// To see them.\n// +kubebuilder:rbac:groups=a,resources=b,verbs=get\n// +kubebuilder:rbac:groups=c,namespace=n,resources=d,verbs=get",
			[]grant{
				{groups: []string{"a"}, resources: []string{"b"}, verbs: []string{"get"}, reason: "To see them."},
				{groups: []string{"c"}, resources: []string{"d"}, verbs: []string{"get"}, namespace: "n", reason: "To see them."},
			}, false,
		},
		"none":            {"// +kubebuilder:rbac:groups=a,resources=b,verbs=get", nil, true},
		"of another only": {"// To see them.\n//\n// +kubebuilder:rbac:groups=a,resources=b,verbs=get", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := "package x\n\n" + tc.comment + "\n\nfunc f() {}\n"
			if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := grantsIn(dir)
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(grant{})); d != "" || (err != nil) != tc.wrong {
				t.Errorf("error %v\n%s", err, d)
			}
		})
	}
}

func TestEachFileOfTheCorpusHasAPage(t *testing.T) {
	files, err := filepath.Glob("../../" + corpus + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus: ", err)
	}
	titles := map[string]bool{}
	for _, title := range corpusTitles {
		titles[title.file] = true
	}
	for _, file := range files {
		if !titles[strings.TrimSuffix(filepath.Base(file), ".yaml")] {
			t.Errorf("corpusTitles has no title of %s", file)
		}
	}
	if len(titles) != len(files) {
		t.Errorf("%d titles, %d files", len(titles), len(files))
	}
}

func TestAPageOfCausesHasARowForEachState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.yaml")
	const source = `
- state: no such image
  component: containerd
  source: pull.go
  waiting: {reason: ErrImagePull, message: "a|b: not found"}
  want: {reason: ErrImagePull, says: "not found: check it", mayPass: true}
- state: a healthy Job
  component: controller-manager
  source: job.go
  noCause: true
`
	const want = "| no such image | containerd (`pull.go`) | ErrImagePull: a\\|b: not found | `ErrImagePull` | not found: check it | yes |\n" +
		"| a healthy Job | controller-manager (`job.go`) |  | none | nothing: it is no failure, or the pods show the cause |  |\n"
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	states, err := readStates(path)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := causesPage("Images", states)(&page); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(page.String(), "|---|---|---|---|---|---|\n")
	if d := cmp.Diff(want, rows); d != "" || !strings.HasPrefix(page.String(), "# Images\n") {
		t.Errorf("%s\n%s", page.String(), d)
	}
}

func TestTheOperationsPageContainsEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Conditions and reasons")
	blocks, err := constantsIn("../../"+reasonFiles[0], "../../"+reasonFiles[1])
	if err != nil {
		t.Fatal(err)
	}
	reasons := 0
	for _, block := range blocks {
		for _, spec := range block.Specs {
			name, value, err := constantOf(spec)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(name, "Reason") {
				continue
			}
			reasons++
			if !strings.Contains(table, "`"+value+"`") {
				t.Errorf("docs/operations.md does not say what to do about %s", value)
			}
		}
	}
	if reasons == 0 {
		t.Error("no reasons found")
	}
}
