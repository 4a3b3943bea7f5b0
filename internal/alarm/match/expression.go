package match

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
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

// interruptCheckFrequency is after how many steps of a comprehension the context
// is looked at.
const interruptCheckFrequency = 100

// newEnv is what expressions are written in. The lists extension is left out:
// its range makes lists of any length.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(
		structTypes(reflect.TypeFor[alarm.Event](), reflect.TypeFor[alarm.Object](), reflect.TypeFor[alarm.Cluster]()),
		ext.Strings(ext.StringsVersion(5)), // the first that tells the cost of its functions
		ext.Math(),
		cel.Variable(varEvent, cel.ObjectType("Event")),
		cel.Variable(varObject, cel.ObjectType("Object")),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
		cel.DefaultUTCTimeZone(true),
		cel.ExtendedValidations(),
	)
}

var (
	errMakesObject  = errors.New("an expression can not make an object")
	errNotPrintable = errors.New("its value can not be printed")
)

// variables is what an expression sees.
type variables struct {
	event   *alarm.Event
	context *alarm.Context
	// cost is what the expressions that saw them cost so far.
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
	// cost is the highest that the expression is estimated to have.
	cost                      uint64
	needsObject, needsContext bool
}

// compileCondition compiles the whole text of a field, which must be a bool.
func (c *Compiler) compileCondition(field, text string) (*expression, error) {
	compiled, output, err := c.compileExpression(field, text, span{text: text})
	if err != nil {
		return nil, err
	}
	if !output.IsExactType(cel.BoolType) {
		return nil, expressionError(field, text, 0, "it is of type %s and must be bool", output)
	}
	return compiled, compiled.checkCost(text, 0)
}

// compileExpression compiles a part of a field's text. What stands before it is
// made blank, so that CEL reports places in the field as the user wrote it.
func (c *Compiler) compileExpression(field, text string, part span) (*expression, *cel.Type, error) {
	checked, issues := c.env.Compile(blank(text[:part.offset]) + part.text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message := strings.TrimSuffix(first.Message, " (in container '')") // there is no other
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

// blank replaces all but line ends by spaces, a space for a character.
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

// eval runs the expression; its error names the field.
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

// judge runs an expression that is a bool. One that fails for want of an object
// that is gone is not at fault.
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
