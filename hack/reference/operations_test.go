package main

import (
	"go/ast"
	"go/parser"
	"go/token"
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
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
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
