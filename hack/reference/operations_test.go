package main

import (
	"os"
	"strings"
	"testing"
)

func TestOperationsSaysWhatToDoAboutEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Conditions and reasons")
	blocks, err := constantsIn("../../"+reasonFiles[0], "../../"+reasonFiles[1])
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, block := range blocks {
		for _, spec := range block.Specs {
			name, value, err := constantOf(spec)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(name, "Reason") {
				continue
			}
			told++
			if !strings.Contains(table, "`"+value+"`") {
				t.Errorf("what is to be done about %s?", value)
			}
		}
	}
	if told == 0 {
		t.Error("there are no reasons")
	}
}
