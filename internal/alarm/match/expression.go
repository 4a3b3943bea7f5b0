package match

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

// Names of the variables of an expression.
const (
	varEvent   = "event"
	varObject  = "object"
	varCluster = "cluster"
	// varMessage is the only variable of a webhook's body.
	varMessage = "message"
)

// interruptCheckFrequency is the number of comprehension steps between two checks of the
// context.
const interruptCheckFrequency = 100

var errNotPrintable = errors.New("the value cannot be printed")

// expression is a compiled CEL expression.
type expression struct {
	field   string
	program cel.Program
	// cost is the estimated maximum cost of the expression.
	cost uint64
	// needsObject: the result depends on the object. needsNodes: on the number of Nodes.
	needsObject, needsNodes bool
	// choosesInLoop: cel-go bills its loops too low.
	choosesInLoop bool
	// ofChange: it is about a change, and reads these fields of the objects.
	ofChange bool
	reads    []fields.Path
	// ofState: it is about a state. usesNow: it uses the present time. text is its text then.
	ofState, usesNow bool
	text             string
}

// compileCondition compiles the whole text of a field. The result must be a bool.
func (c *compilation) compileCondition(field, text string) (*expression, error) {
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
func (c *compilation) compileExpression(field, text string, part span) (*expression, *cel.Type, error) {
	source := blank(text[:part.offset]) + part.text
	checked, found, issues := check(c.env, source)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		problem := strings.TrimSuffix(first.Message, " (in container '')") // the only container
		failure := expressionError(field, text, part.offset, "%s", problem)
		if line := first.Location.Line(); line > 0 {
			failure.Line, failure.Column = line, first.Location.Column()+1
		}
		if correction := hint(c.env, source, first.Location); correction != "" {
			failure.Message += ": " + correction
		}
		return nil, nil, failure
	}
	e := &expression{field: field}
	if c.env == c.changeEnv {
		e.ofChange, e.reads = true, readsOf(checked)
	}
	if c.env == c.stateEnv {
		e.ofState, e.reads, e.usesNow, e.text = true, readsOf(checked), usesNow(checked), text
	}
	if c.instructions += found.instructions; c.instructions > maxInstructionsPerAlarm {
		return nil, nil, expressionError(field, text, part.offset,
			"the regular expressions of an alarm can have %d instructions together, and with this one they have %d: "+
				"write shorter patterns, or split the alarm", maxInstructionsPerAlarm, c.instructions)
	}
	if err := e.build(c.env, checked, found); err != nil {
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

func (e *expression) build(env *cel.Env, checked *cel.Ast, found patterns) error {
	costs := callCosts{patterns: found}
	cost, err := env.EstimateCost(checked, costs)
	if err != nil {
		return err
	}
	e.cost, e.choosesInLoop = cost.Max, choosesInLoop(checked)
	for _, reference := range checked.NativeRep().ReferenceMap() {
		e.needsObject = e.needsObject || reference.Name == varObject
	}
	e.needsNodes = slices.ContainsFunc(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)), usesNodes)
	e.program, err = env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostTracking(costs),
		cel.CostLimit(maxCost),
		limitMatches(found),
		cel.InterruptCheckFrequency(interruptCheckFrequency),
	)
	return err
}

// eval runs the expression. Its error names the field.
func (e *expression) eval(ctx context.Context, vars *variables) (ref.Val, error) {
	activation := cel.Activation(vars)
	switch {
	case e.ofChange:
		activation = changeActivation{vars}
	case e.ofState:
		activation = stateActivation{vars}
	}
	value, details, err := e.program.ContextEval(ctx, activation)
	if cost := details.ActualCost(); cost != nil {
		vars.cost += e.billed(*cost)
	}
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		err = errTooExpensive
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.field, err)
	}
	return value, nil
}

// billed returns what an evaluation costs that cost so much for cel-go.
func (e *expression) billed(cost uint64) int64 {
	if e.choosesInLoop {
		cost += choiceCost(cost)
	}
	return int64(min(cost, maxBilled))
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
