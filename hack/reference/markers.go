package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

const rbacMarker = "+kubebuilder:rbac:"

// grant is one RBAC marker with the reason that stands above it.
type grant struct {
	groups, resources, verbs []string
	namespace, reason, file  string
}

// grantsIn returns the markers of the Go files of a folder and those below.
func grantsIn(folder string) ([]grant, error) {
	var grants []grant
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, comment := range file.Comments {
			found, err := grantsInComment(comment)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			for _, g := range found {
				g.file = path
				grants = append(grants, g)
			}
		}
		return nil
	})
	return grants, err
}

// grantsInComment gives each marker the text that stands above it and the markers before
// it; an empty line ends that.
func grantsInComment(comment *ast.CommentGroup) ([]grant, error) {
	var grants []grant
	var reason []string
	for _, line := range comment.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		marker, isMarker := strings.CutPrefix(text, rbacMarker)
		switch {
		case text == "":
			reason = nil
		case !isMarker:
			reason = append(reason, text)
		case len(reason) == 0:
			return nil, fmt.Errorf("no reason stands above %s: write one in the lines before it", text)
		default:
			grants = append(grants, parseGrant(marker, strings.Join(reason, " ")))
		}
	}
	return grants, nil
}

func parseGrant(marker, reason string) grant {
	g := grant{reason: reason}
	for setting := range strings.SplitSeq(marker, ",") {
		key, value, _ := strings.Cut(setting, "=")
		values := strings.Split(strings.Trim(value, `"`), ";")
		switch key {
		case "groups":
			g.groups = values
		case "resources":
			g.resources = values
		case "verbs":
			g.verbs = values
		case "namespace":
			g.namespace = value
		}
	}
	return g
}

func (g grant) each(tell func(string)) {
	for _, group := range g.groups {
		for _, resource := range g.resources {
			for _, verb := range g.verbs {
				tell(strings.Join([]string{verb, resource, group, g.namespace}, " "))
			}
		}
	}
}
