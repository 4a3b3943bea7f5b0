package match

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Names of the variables of an expression.
const (
	varEvent   = "event"
	varObject  = "object"
	varCluster = "cluster"
)

// interruptCheckFrequency is the number of comprehension steps between two checks of the
// context.
const interruptCheckFrequency = 100

// newEnv returns the environment of expressions. It does not include the lists extension,
// whose range function makes lists of any length.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(
		structTypes(reflect.TypeFor[alarm.Event](), reflect.TypeFor[alarm.Object](), reflect.TypeFor[alarm.Cluster]()),
		ext.Strings(ext.StringsVersion(5)), // the first version with costs for its functions
		ext.Math(),
		cel.Variable(varEvent, cel.ObjectType("Event")),
		cel.Variable(varObject, cel.ObjectType("Object")),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
		cel.DefaultUTCTimeZone(true),
		cel.ExtendedValidations(),
	)
}

var (
	errMakesObject  = errors.New("an expression cannot construct an object: use the fields of event, object or cluster")
	errNotPrintable = errors.New("the value cannot be printed")
)

// variables is the data that an expression can use.
type variables struct {
	event   *alarm.Event
	context *alarm.Context
	// cost is the total cost of the evaluations that used this data.
	cost int64
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case varEvent:
		return v.event, true
	case varObject:
		return &v.context.Object, true
	case varCluster:
		return &v.context.Cluster, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

// expression is a compiled CEL expression.
type expression struct {
	field   string
	program cel.Program
	// cost is the estimated maximum cost of the expression.
	cost                      uint64
	needsObject, needsContext bool
}

// compileCondition compiles the whole text of a field. The result must be a bool.
func (c *Compiler) compileCondition(field, text string) (*expression, error) {
	compiled, output, err := c.compileExpression(field, text, span{text: text})
	if err != nil {
		return nil, err
	}
	if !output.IsExactType(cel.BoolType) {
		return nil, expressionError(field, text, 0, "the result is of type %s: it must be bool", output)
	}
	return compiled, compiled.checkCost(text, 0)
}

// compileExpression compiles a part of a field's text. It replaces the text before that
// part by blanks, so that CEL reports positions in the whole field.
func (c *Compiler) compileExpression(field, text string, part span) (*expression, *cel.Type, error) {
	checked, issues := c.env.Compile(blank(text[:part.offset]) + part.text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message := strings.TrimSuffix(first.Message, " (in container '')") // the only container
		failure := expressionError(field, text, part.offset, "%s", message)
		if line := first.Location.Line(); line > 0 {
			failure.Line, failure.Column = line, first.Location.Column()+1
		}
		return nil, nil, failure
	}
	e := &expression{field: field}
	if err := e.build(c.env, checked); err != nil {
		return nil, nil, expressionError(field, text, part.offset, "%s", err)
	}
	return e, checked.OutputType(), nil
}

// blank replaces each character by a space, and keeps line ends.
func blank(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, s)
}

func (e *expression) build(env *cel.Env, checked *cel.Ast) error {
	root := ast.NavigateAST(checked.NativeRep())
	if len(ast.MatchDescendants(root, ast.KindMatcher(ast.StructKind))) > 0 {
		return errMakesObject
	}
	cost, err := env.EstimateCost(checked, costEstimator{})
	if err != nil {
		return err
	}
	e.cost = cost.Max
	for _, reference := range checked.NativeRep().ReferenceMap() {
		e.needsObject = e.needsObject || reference.Name == varObject
		e.needsContext = e.needsContext || reference.Name == varObject || reference.Name == varCluster
	}
	e.program, err = env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(maxCost),
		cel.InterruptCheckFrequency(interruptCheckFrequency),
	)
	return err
}

// eval runs the expression. Its error names the field.
func (e *expression) eval(ctx context.Context, vars *variables) (ref.Val, error) {
	value, details, err := e.program.ContextEval(ctx, vars)
	if cost := details.ActualCost(); cost != nil {
		vars.cost += int64(*cost)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.field, err)
	}
	return value, nil
}

// evaluateCondition runs an expression that returns a bool. If it fails because the
// object is gone, the result is Unresolved.
func (e *expression) evaluateCondition(ctx context.Context, vars *variables) Result {
	value, err := e.eval(ctx, vars)
	switch {
	case err == nil && value == types.True:
		return Result{Outcome: Matched}
	case err == nil:
		return Result{Outcome: NotMatched}
	case e.needsObject && !vars.context.Resolved && ctx.Err() == nil:
		return Result{Outcome: Unresolved}
	default:
		return Result{Outcome: Failed, Err: err}
	}
}

// maxCost limits the cost of an expression, or of all expressions of a template together,
// in CEL's cost units. Compilation checks the estimate. Evaluation checks the real cost,
// because texts can be longer than estimated.
const maxCost = 100_000

// unboundedCost is higher than the cost of any expression over values of limited size.
const unboundedCost = math.MaxUint64 / 1_000_000

// checkCost returns an error, at the offset in the field's text, if the expression can
// cost too much.
func (e *expression) checkCost(text string, offset int) error {
	switch {
	case e.cost <= maxCost:
		return nil
	case e.cost > unboundedCost:
		return expressionError(e.field, text, offset, "the cost is unbounded, the limit is %d: write a cheaper expression", maxCost)
	default:
		return expressionError(e.field, text, offset, "the cost can reach %d, the limit is %d: write a cheaper expression", e.cost, maxCost)
	}
}

// maxSizes are the sizes for cost estimates: characters of texts, entries of maps. They
// are the limits of the API server where it has one.
var maxSizes = map[string]uint64{
	"event.note":                   1024,
	"event.reason":                 128,
	"event.action":                 128,
	"object.cause":                 1024,
	"object.metadata.labels":       64,
	"object.metadata.annotations":  64,
	"object.node.capacity":         64,
	"object.metadata.labels.value": 63,
	// 64 values of this size are 256 KiB, which is the API server's limit for all
	// annotations of an object.
	"object.metadata.annotations.value": 4096,
	"object.node.capacity.value":        64,
}

const (
	// maxNameSize is the size of names and of everything not in maxSizes.
	maxNameSize = 253
	// maxKeySize is the size of a qualified name: prefix, slash and name.
	maxKeySize = 253 + 1 + 63
	// maxScalarText is the size of a number, bool, time or duration as text.
	maxScalarText = 64
)

// costEstimator implements checker.CostEstimator.
type costEstimator struct{}

// EstimateSize implements checker.CostEstimator.
func (costEstimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	switch len(path) {
	case 0:
		return nil
	case 1:
		return &checker.SizeEstimate{Min: 1, Max: 1} // a variable is an object, which has no size
	}
	return &checker.SizeEstimate{Max: maxSize(path)}
}

func maxSize(path []string) uint64 {
	if size, ok := maxSizes[strings.Join(path, ".")]; ok {
		return size
	}
	parent, last := path[:len(path)-1], path[len(path)-1]
	if last == "@keys" {
		return maxKeySize
	}
	// The value of a map, for any key.
	if size, ok := maxSizes[strings.Join(append(slices.Clone(parent), "value"), ".")]; ok {
		return size
	}
	return maxNameSize
}

// EstimateCallCost implements checker.CostEstimator. It limits the size of scalars that
// are converted to texts, which CEL does not know.
func (costEstimator) EstimateCallCost(_, overload string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	switch overload {
	case "int64_to_string", "uint64_to_string", "double_to_string", "bool_to_string",
		"timestamp_to_string", "duration_to_string":
		return &checker.CallEstimate{
			CostEstimate: checker.FixedCostEstimate(1),
			ResultSize:   &checker.SizeEstimate{Max: maxScalarText},
		}
	}
	return nil
}
