package stages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// kubeletFormats returns what the kubelet's source has of string constants, each
// as a pattern of the texts that it formats. The kubelet does not export its
// messages, but they are in there, of the very release that we build.
func kubeletFormats(t *testing.T) []*regexp.Regexp {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("find the source of Kubernetes: %v", err)
	}
	kubelet := filepath.Join(strings.TrimSpace(string(root)), "pkg", "kubelet")
	var formats []*regexp.Regexp
	for _, dir := range []string{".", "cm", "images", "kuberuntime", "prober"} {
		files, err := filepath.Glob(filepath.Join(kubelet, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source in %s: %v", filepath.Join(kubelet, dir), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				formats = append(formats, formatsIn(t, file)...)
			}
		}
	}
	return formats
}

func formatsIn(t *testing.T, file string) []*regexp.Regexp {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var formats []*regexp.Regexp
	ast.Inspect(tree, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			if pattern := patternOf(text); pattern != nil {
				formats = append(formats, pattern)
			}
		}
		return true
	})
	return formats
}

var verb = regexp.MustCompile(`%[+#]?[a-z]`)

// patternOf turns a format into a pattern. It returns nil if the format has almost no
// text of its own, like "%s: %v", because the pattern would match anything.
func patternOf(text string) *regexp.Regexp {
	const enough = 6
	parts := verb.Split(text, -1)
	if len(strings.Join(parts, "")) < enough {
		return nil
	}
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "(?s:.+)") + "$")
}
