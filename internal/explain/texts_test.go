package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTheDiagnosisSaysWhatIsLookedFor fails if a sentence of pkg/diagnosis is reworded, and an expression that looks
// for it here is not.
func TestTheDiagnosisSaysWhatIsLookedFor(t *testing.T) {
	says := sentences(t)
	expressions := []*regexp.Regexp{noRegistry, deletedClaim, nfsServer, providerInText, driverInText, providerOfVolume}
	expressions = append(expressions, regexp.MustCompile("attached to another node"), regexp.MustCompile("denies access"))
	for alternative := range strings.SplitSeq(brokenNode.String(), "|") {
		start, _, _ := strings.Cut(alternative, ".*") // what follows is from the runtime of the node
		expressions = append(expressions, regexp.MustCompile(start))
	}
	for _, l := range ofDiagnosis {
		expressions = append(expressions, l.text)
	}
	for _, e := range expressions {
		if !slices.ContainsFunc(says, e.MatchString) {
			t.Errorf("no state of the corpus says %s", e)
		}
	}
}

// sentences returns what the diagnosis says of the states of its corpus.
func sentences(t *testing.T) (all []string) {
	files, err := filepath.Glob("../../pkg/diagnosis/testdata/corpus/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var states []struct {
			Want struct{ Says string }
		}
		if err := yaml.Unmarshal(text, &states); err != nil {
			t.Fatal(f, err)
		}
		for _, s := range states {
			all = append(all, s.Want.Says)
		}
	}
	return all
}
