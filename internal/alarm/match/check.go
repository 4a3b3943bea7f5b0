package match

import (
	"fmt"
	"regexp/syntax"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

const (
	// maxNesting is the number of loops, lists and maps within each other. cel-go's time
	// for checking types grows fast with it.
	maxNesting = 16
	// maxTypeNesting is the number of lists and maps within each other in a value.
	maxTypeNesting = 2

	// maxInstructions is the number of instructions of all regular expressions in one
	// expression. maxInstructionsPerAlarm is for all expressions of an alarm together. An
	// instruction needs up to some hundred bytes of memory.
	maxInstructions         = 1_000
	maxInstructionsPerAlarm = 4_000
)

// patterns are the regular expressions of an expression.
type patterns struct {
	// byText contains the instructions of each.
	byText map[string]int
	// instructions is the sum of all calls of matches. Each compiles its pattern.
	instructions int
}

// check parses an expression and checks its types. It refuses what cel-go would accept
// although a few characters of it can take hours, or all memory, to compile or to run.
func check(env *cel.Env, text string) (*cel.Ast, patterns, *cel.Issues) {
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, patterns{}, issues
	}
	c := &inspection{issues: newIssues(parsed), patterns: patterns{byText: map[string]int{}}}
	c.checkSyntax(ast.NavigateAST(parsed.NativeRep()), 0)
	if c.issues.Err() != nil {
		return nil, patterns{}, c.issues
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, patterns{}, issues
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.AllMatcher()) {
		c.checkTypes(e)
		c.checkPattern(e)
	}
	return checked, c.patterns, c.issues
}

func newIssues(parsed *cel.Ast) *cel.Issues {
	return cel.NewIssuesWithSourceInfo(common.NewErrors(parsed.Source()), parsed.NativeRep().SourceInfo())
}

// inspection looks for what is refused in one expression.
type inspection struct {
	issues   *cel.Issues
	patterns patterns
}

// checkSyntax checks an expression before its types are known. nesting is the number of
// loops, lists and maps around it. The type of a map contains those of its keys and its
// values. With a variable as both, it would double with each map.
func (c *inspection) checkSyntax(e ast.NavigableExpr, nesting int) {
	if e.Kind() == ast.StructKind {
		c.issues.ReportErrorAtID(e.ID(), "an expression cannot construct an object: use the fields of event, object or cluster")
		return
	}
	if e.Kind() == ast.MapKind {
		for _, entry := range e.AsMap().Entries() {
			if key := entry.AsMapEntry().Key(); key.Kind() != ast.LiteralKind {
				c.issues.ReportErrorAtID(key.ID(), "the key of a map must be a constant, such as \"name\"")
				return
			}
		}
	}
	if slices.Contains([]ast.ExprKind{ast.ComprehensionKind, ast.ListKind, ast.MapKind}, e.Kind()) {
		nesting++
	}
	if nesting > maxNesting {
		c.issues.ReportErrorAtID(e.ID(), "more than %d loops, lists and maps are within each other: write a simpler expression", maxNesting)
		return
	}
	for _, child := range e.Children() {
		c.checkSyntax(child, nesting)
	}
}

// checkTypes refuses values whose size is no measure for the time that they take. A list
// can contain another one many times, which can contain a third one many times. To compare
// or print such lists would take exponential time.
func (c *inspection) checkTypes(e ast.NavigableExpr) {
	call := ast.Expr(e)
	switch {
	case isCall(call, overloads.TypeConvertDyn):
		c.issues.ReportErrorAtID(e.ID(), "dyn() is not available: use the value itself")
	case containsUnknown(e.Type()) && !isFormatArgument(e):
		c.issues.ReportErrorAtID(e.ID(), "the elements of a list or map must be of one known type")
	case typeNesting(e.Type()) > maxTypeNesting:
		c.issues.ReportErrorAtID(e.ID(), "more than %d lists and maps are within each other: write a simpler expression", maxTypeNesting)
	case isCall(call, operators.Equals), isCall(call, operators.NotEquals), isCall(call, operators.In):
		for _, arg := range e.Children() {
			if typeNesting(arg.Type()) > 1 {
				c.issues.ReportErrorAtID(arg.ID(), "lists and maps of lists and maps cannot be compared: compare their elements")
			}
		}
	}
}

func isCall(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
}

// isFormatArgument reports whether e is a list literal that is passed to format, as in
// "%s: %d".format([event.reason, event.count]). Its elements can be of different types.
func isFormatArgument(e ast.NavigableExpr) bool {
	parent, ok := e.Parent()
	return ok && e.Kind() == ast.ListKind && isCall(parent, "format")
}

// containsUnknown reports whether the type of the elements of a list or map is not known.
func containsUnknown(t *types.Type) bool {
	if t.Kind() != types.ListKind && t.Kind() != types.MapKind {
		return false
	}
	for _, element := range t.Parameters() {
		switch element.Kind() {
		case types.DynKind, types.AnyKind, types.TypeParamKind:
			return true
		}
		if containsUnknown(element) {
			return true
		}
	}
	return false
}

// typeNesting returns how many lists and maps are within each other.
func typeNesting(t *types.Type) int {
	if t.Kind() != types.ListKind && t.Kind() != types.MapKind {
		return 0
	}
	deepest := 0
	for _, element := range t.Parameters() {
		deepest = max(deepest, typeNesting(element))
	}
	return 1 + deepest
}

// checkPattern checks the regular expression of a call of matches, before anything
// compiles it.
func (c *inspection) checkPattern(e ast.NavigableExpr) {
	if !isCall(e, overloads.Matches) {
		return
	}
	args := e.AsCall().Args()
	pattern := args[len(args)-1]
	text, ok := literalText(pattern)
	if !ok {
		c.issues.ReportErrorAtID(pattern.ID(), "the pattern of matches() must be a constant: write it in quotes, "+
			"or search a text with contains()")
		return
	}
	n, err := instructions(text)
	if err != nil {
		c.issues.ReportErrorAtID(pattern.ID(), "invalid matches argument: %s", err)
		return
	}
	c.patterns.byText[text] = n
	c.patterns.instructions += n
	if sum := c.patterns.instructions; sum > maxInstructions {
		c.issues.ReportErrorAtID(pattern.ID(), "the regular expressions have %d instructions, the limit is %d: "+
			"lower the numbers in braces, such as {500}, or write shorter patterns", sum, maxInstructions)
	}
}

func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

// instructions returns an upper bound of the number of instructions of a compiled regular
// expression. It does not compile the pattern, because that is what makes (a{1000}){1000}
// expensive.
func instructions(pattern string) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("%w: correct the pattern", err)
	}
	const startAndEnd = 3 // the first one fails, and the match is in a group
	return startAndEnd + countInstructions(parsed), nil
}

// runesPerInstruction is the number of limits of character ranges that take as much memory
// as one instruction.
const runesPerInstruction = 32

func countInstructions(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += countInstructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/runesPerInstruction
	case syntax.OpCapture, syntax.OpStar:
		return sum + 2
	case syntax.OpPlus, syntax.OpQuest:
		return sum + 1
	case syntax.OpConcat, syntax.OpAlternate:
		return sum + max(1, len(re.Sub)-1)
	case syntax.OpRepeat:
		return repeated(re, sum)
	default:
		return sum + 1
	}
}

// repeated returns the instructions of x{2,5}, which is compiled as xx(x(x(x)?)?)?, or of
// x{2,}, which is compiled as xx+. sum is the number of instructions of x.
func repeated(re *syntax.Regexp, sum int) int {
	switch {
	case re.Max < 0:
		return max(1, re.Min)*sum + 2
	case re.Max == 0:
		return 1
	default:
		return re.Max*sum + re.Max - re.Min
	}
}
