package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

type scene struct {
	Target    string            `json:"target"`
	Namespace *string           `json:"namespace"`
	Story     string            `json:"story"`
	Root      string            `json:"root"`
	Right     []string          `json:"right"`
	Wrong     []string          `json:"wrong"`
	Harmless  bool              `json:"harmless"`
	Objects   string            `json:"objects"`
	Logs      map[string]string `json:"logs"`
}

func TestAttack(t *testing.T) {
	dir := os.Getenv("ATTACK")
	if dir == "" {
		t.Skip("no dir")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
	counts := map[string]int{}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var s scene
			if err := yaml.Unmarshal(data, &s); err != nil {
				counts["bad"]++
				t.Fatal(err)
			}
			ns := "shop"
			if s.Namespace != nil {
				ns = *s.Namespace
			}
			if f := strings.Fields(s.Target); len(f) != 2 {
				counts["bad"]++
				t.Fatalf("target %q", s.Target)
			}
			counts["bad"]++
			e := fakeCluster(t, s.Objects)
			e.logs = fakeLogs(s.Logs)
			resource, name, _ := strings.Cut(s.Target, " ")
			x, err := e.Explain(t.Context(), schema.ParseGroupResource(resource), ns, name)
			if err != nil {
				t.Fatal(err)
			}
			counts["bad"]--
			got := written(t, x)
			sum := 0
			for _, n := range e.requests {
				sum += n
			}
			verdict, original := "right", got
			if s.Harmless {
				if x.Cause != nil {
					verdict = "wrong"
				}
			} else {
				for _, r := range s.Right {
					if !regexp.MustCompile("(?is)" + r).MatchString(got) {
						verdict = "vague"
						got += "\n  MISSING " + r
					}
				}
			}
			for _, r := range s.Wrong {
				if regexp.MustCompile("(?is)" + r).MatchString(original) {
					verdict = "wrong"
					got += "\n  WRONG " + r
				}
			}
			counts[verdict]++
			if sum > 40 {
				counts["requests"]++
				t.Errorf("%d requests: %v", sum, e.requests)
			}
			if verdict != "right" {
				t.Errorf("%s: %s\nstory: %s\nroot: %s\n%s", verdict, s.Target, s.Story, s.Root, got)
			}
		})
	}
	fmt.Println("COUNTS", dir, counts)
}

var _ = meta.NewDefaultRESTMapper
