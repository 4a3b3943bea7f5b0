package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// reasonFiles declare the condition types and reasons. They are relative to the root of the
// repository.
var reasonFiles = []string{"api/v1alpha1/conditions.go", "pkg/diagnosis/reasons.go"}

// writeReasons writes the constants of Go files with their comments, block by block.
func writeReasons(w *bytes.Buffer, paths ...string) error {
	fmt.Fprint(w, "## Conditions and reasons\n\n")
	blocks, err := constantsIn(paths...)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		if err := writeBlock(w, block); err != nil {
			return err
		}
	}
	return nil
}

func constantsIn(paths ...string) (blocks []*ast.GenDecl, err error) {
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			if block, ok := declaration.(*ast.GenDecl); ok && block.Tok == token.CONST {
				blocks = append(blocks, block)
			}
		}
	}
	return blocks, nil
}

func writeBlock(w *bytes.Buffer, block *ast.GenDecl) error {
	if !block.Lparen.IsValid() {
		return writeSingle(w, block)
	}
	fmt.Fprintf(w, "%s\n\n| value | meaning |\n|---|---|\n", escape(block.Doc.Text()))
	for _, spec := range block.Specs {
		name, value, err := constantOf(spec)
		if err != nil {
			return err
		}
		meaning := strings.TrimPrefix(spec.(*ast.ValueSpec).Doc.Text(), name+": ")
		meaning = strings.TrimPrefix(meaning, name+" is ")
		fmt.Fprintf(w, "| `%s` | %s |\n", value, escape(meaning))
	}
	fmt.Fprintln(w)
	return nil
}

// writeSingle writes the comment of a constant, with its value instead of its name.
func writeSingle(w *bytes.Buffer, block *ast.GenDecl) error {
	name, value, err := constantOf(block.Specs[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n\n", escape(strings.ReplaceAll(block.Doc.Text(), name, "`"+value+"`")))
	return nil
}

func constantOf(spec ast.Spec) (name, value string, err error) {
	constant, ok := spec.(*ast.ValueSpec)
	if !ok || len(constant.Names) != 1 || len(constant.Values) != 1 {
		return "", "", fmt.Errorf("not a single constant: %v", spec)
	}
	name = constant.Names[0].Name
	literal, ok := constant.Values[0].(*ast.BasicLit)
	if !ok {
		return "", "", fmt.Errorf("constant %s: not a literal", name)
	}
	value, err = strconv.Unquote(literal.Value)
	return name, value, err
}
