package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const groupVersionFile = `// +kubebuilder:object:generate=true
// +groupName=cache.example.com
package v1
`

const typesFile = `package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
type Existing struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata\"`" + `
	Spec              ExistingSpec ` + "`json:\"spec\"`" + `
}

type ExistingSpec struct {
	// +kubebuilder:validation:Minimum=0
	Size *int32 ` + "`json:\"size\"`" + `
}
`

// newTypes changes to a project with types and a real go command. It returns the path of the types.
// The project has the dependencies of this module, so it downloads nothing.
func newTypes(t *testing.T) string {
	t.Helper()
	mod, sum := read(t, "../../go.mod"), read(t, "../../go.sum")
	t.Chdir(t.TempDir())
	types := filepath.Join("api", "v1", "existing_types.go")
	if err := os.MkdirAll(filepath.Dir(types), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "go.mod", mod)
	write(t, "go.sum", sum)
	write(t, "PROJECT", project)
	write(t, filepath.Join("api", "v1", "groupversion_info.go"), groupVersionFile)
	write(t, types, typesFile)
	return types
}

// present returns the files of the project.
func present(t *testing.T) map[string]file {
	t.Helper()
	f := &files{dir: "."}
	if err := f.keep(); err != nil {
		t.Fatal(err)
	}
	return f.kept
}

func wantUnchanged(t *testing.T, before map[string]file) {
	t.Helper()
	after := present(t)
	for path, f := range after {
		if old, exists := before[path]; !exists || string(old.content) != string(f.content) {
			t.Errorf("%s changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there were %d files, and are %d", len(before), len(after))
	}
}

func TestTypesThatDoNotCompileChangeNothing(t *testing.T) {
	types := newTypes(t)
	if err := os.MkdirAll(local, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := printed(t, "generate"); got != "Generated api/v1/zz_generated.deepcopy.go\nGenerated config/crd/bases/cache.example.com_existings.yaml\n" {
		t.Error(got)
	}
	if got := printed(t, "generate"); got != "The generated files are up to date.\n" {
		t.Error(got)
	}
	if crd := read(t, "config/crd/bases/cache.example.com_existings.yaml"); !strings.Contains(crd, "format: int32") {
		t.Fatal(crd)
	}
	write(t, types, strings.ReplaceAll(typesFile, "int32", "int33"))
	for _, command := range []string{
		"generate", "run", "build", "create api --group cache --version v1 --kind Other",
		"create webhook --group cache --version v1 --kind Existing --defaulting",
	} {
		wantRefused(t, command, "fix them first")
	}
	for mistake, broken := range map[string]string{
		"an unused wrong type": typesFile + "\ntype Other struct{ A []missing }\n",
		"a misspelt marker":    strings.ReplaceAll(typesFile, "Minimum=0", "Minimun=0"),
		"a wrong marker":       strings.ReplaceAll(typesFile, "Minimum=0", "Minimum=abc"),
		"no Go":                typesFile + "}",
	} {
		write(t, types, broken)
		t.Run(mistake, func(t *testing.T) { wantRefused(t, "generate", "fix them first") })
	}
}

func TestEachErrorOfTheProjectIsNamedOnce(t *testing.T) {
	types := newTypes(t)
	for want, broken := range map[string]string{
		"existing_types.go:17:22: undefined: missing":                               typesFile + "\ntype Other struct{ A missing }\n",
		"existing_types.go:13:2: unknown marker +kubebuilder:validation:Minimun":    strings.ReplaceAll(typesFile, "Minimum=0", "Minimun=0"),
		"no required module provides package example.com/missing":                   strings.Replace(typesFile, "import metav1", "import _ \"example.com/missing\"\nimport metav1", 1),
		`invalid minimum value: strconv.ParseFloat: parsing "zero": invalid syntax`: strings.ReplaceAll(typesFile, "Minimum=0", "Minimum=zero"),
	} {
		write(t, types, broken)
		_, err := generate(t.Context())
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once in: %v", want, err)
		}
	}
}

// Without the generated code, packages outside the project do not compile either.
func TestOnlyErrorsOfTheProjectAreNamedAndNotTooMany(t *testing.T) {
	types := newTypes(t)
	broken := strings.ReplaceAll(typesFile, "Minimum=0", "Minimun=0")
	write(t, types, strings.Replace(broken, "import metav1", "import _ \"sigs.k8s.io/controller-tools/pkg/crd\"\nimport metav1", 1))
	_, err := generate(t.Context())
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "unknown marker") {
		t.Errorf("want only the marker in: %v", err)
	}
	write(t, types, broken+strings.Repeat("\n// +kubebuilder:validation:Minimun=1", 20)+"\ntype Other struct{}\n")
	if _, err := generate(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "\nand 11 more") {
		t.Errorf("want ten errors, and how many more, in: %v", err)
	}
}

func TestASecondVersionOfAKindNeedsAStorageVersion(t *testing.T) {
	types := newTypes(t)
	const commandLine, want = "create api --group cache --version v2 --kind Existing --controller=false", "add // +kubebuilder:storageversion to the type in api/v1/existing_types.go"
	wantRefused(t, commandLine, want)
	write(t, types, strings.Replace(typesFile, "object:root=true", "object:root=true\n// +kubebuilder:storageversion", 1))
	wantRefused(t, commandLine, "cmd/main.go") // which the test lacks
	head, kinds, _ := strings.Cut(project, "- api:")
	older := strings.NewReplacer("version: v1\n", "version: v1alpha1\n", "api/v1\n", "api/v1alpha1\n", "version: \"3\"\n", "").Replace(kinds)
	write(t, "PROJECT", head+"- api:"+older+"- api:"+kinds)
	if err := os.Mkdir("api/v1alpha1", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "api/v1alpha1/existing_types.go", "package v1alpha1\n")
	wantRefused(t, commandLine, "cmd/main.go")
}
