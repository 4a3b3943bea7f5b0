package summary

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASummaryIsThatOfTheLastRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(dirEnv, dir)
	t.Run("of a part", func(t *testing.T) {
		New(t).Printf("%d lost", 1)
		New(t).Printf("%d lost", 2)
		const name = "TestASummaryIsThatOfTheLastRun/of_a_part"
		want := map[string]string{
			"github.com_bongsu-io_bongsu_internal_testing_summary.TestASummaryIsThatOfTheLastRun_of_a_part": "summary: " + name + ": 2 lost\n",
		}
		if diff := cmp.Diff(want, files(t, dir)); diff != "" {
			t.Error(diff)
		}
		New(t) // begins, and never comes to its end
		if diff := cmp.Diff(map[string]string{}, files(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestASummaryDoesNotKeepAResultOutOfTheCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(dirEnv, dir)
	New(t).Printf("nothing lost")
	for name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(info.ModTime()); age < time.Hour {
			t.Errorf("%s is %v old: too new for go test", name, age)
		}
	}
}

// files are the contents of the files in a directory, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		contents[e.Name()] = string(text)
	}
	return contents
}
