package match

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

// readsOf returns the fields of object and oldObject that a checked expression reads. The
// path ends where the expression uses the value other than by selecting a field.
func readsOf(checked *cel.Ast) []fields.Path {
	var reads []fields.Path
	for _, use := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)) {
		switch name := use.AsIdent(); {
		case name == varObject && isConditionOf(use):
			reads = append(reads, readsOfConditions()...)
		case name == varObject, name == varOldObject:
			reads = append(reads, fields.Join(selectedFrom(use)...))
		}
	}
	return reads
}

// selectedFrom returns the names of the fields that are selected one after the other.
func selectedFrom(use ast.NavigableExpr) []string {
	var names []string
	for {
		parent, ok := use.Parent()
		if !ok {
			return names
		}
		switch {
		case parent.Kind() == ast.SelectKind:
			names = append(names, parent.AsSelect().FieldName())
		case isCall(parent, operators.Index), isCall(parent, operators.OptIndex), isCall(parent, operators.OptSelect):
			args := parent.AsCall().Args()
			key, constant := literalText(args[1])
			if !constant || args[0].ID() != use.ID() {
				return names
			}
			names = append(names, key)
		default:
			return names
		}
		use = parent
	}
}

// usesNow reports whether an expression uses the variable now.
func usesNow(checked *cel.Ast) bool {
	isNow := func(e ast.NavigableExpr) bool { return e.AsIdent() == varNow }
	return slices.ContainsFunc(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)), isNow)
}

// usesNodes reports whether a use of a variable can depend on the number of Nodes.
func usesNodes(use ast.NavigableExpr) bool {
	if use.AsIdent() != varCluster {
		return false
	}
	parent, ok := use.Parent()
	return !ok || parent.Kind() != ast.SelectKind || parent.AsSelect().FieldName() != "name"
}
