package match

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// newEnv returns the environment of expressions. It does not include the lists extension,
// whose range function makes lists of any length. It does not include cel-go's check of
// regular expressions either, because that compiles patterns of any size: see [patterns].
func newEnv() (*cel.Env, error) {
	return newEnvOf(
		structTypes(reflect.TypeFor[alarm.Event](), reflect.TypeFor[alarm.Object](), reflect.TypeFor[alarm.Cluster]()),
		cel.Variable(varEvent, cel.ObjectType("Event")),
		cel.Variable(varObject, cel.ObjectType("Object")),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
	)
}

// newEnvOf returns the environment of expressions that can use these types and variables.
func newEnvOf(typesAndVariables ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewEnv(append(typesAndVariables,
		ext.Strings(ext.StringsVersion(5)), // the first version with costs for its functions
		limitTexts("format", "join", "replace", "indexOf", "lastIndexOf"),
		ext.Math(),
		cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateHomogeneousAggregateLiterals()),
	)...)
}

// newChangeEnv returns the environment of expressions about changes. object and oldObject are
// as in the API, because their types are not known.
func newChangeEnv() (*cel.Env, error) {
	return newEnvOf(
		structTypes(reflect.TypeFor[FieldChange](), reflect.TypeFor[alarm.Cluster]()),
		cel.Variable(varObject, cel.DynType),
		cel.Variable(varOldObject, cel.DynType),
		cel.Variable(varChanged, cel.ListType(cel.ObjectType("FieldChange"))),
		cel.Variable(varManager, cel.StringType),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
	)
}

// newStateEnv returns the environment of expressions about states. The macro condition(TYPE)
// calls the function of the same name with the object.
func newStateEnv() (*cel.Env, error) {
	adapter := &structs{Provider: types.NewEmptyRegistry(), Adapter: types.DefaultTypeAdapter, byName: map[string]*structType{}, byType: map[reflect.Type]*structType{}}
	condition, err := adapter.typeOf(reflect.TypeFor[Condition]())
	if err != nil {
		return nil, err
	}
	return newEnvOf(
		structTypes(reflect.TypeFor[Condition](), reflect.TypeFor[alarm.Cluster]()),
		cel.Variable(varObject, cel.DynType),
		cel.Variable(varNow, cel.TimestampType),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
		cel.Macros(parser.NewGlobalMacro(conditionFunction, 1, func(f parser.ExprHelper, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			return f.NewCall(conditionFunction, f.NewIdent(varObject), args[0]), nil
		})),
		cel.Function(conditionFunction, cel.Overload(conditionOverload, []*cel.Type{cel.DynType, cel.StringType}, condition,
			cel.BinaryBinding(func(object, kind ref.Val) ref.Val {
				name, _ := kind.(types.String)
				return adapter.NativeToValue(conditionOf(object.Value(), string(name)))
			}))),
	)
}

// Compiler compiles Definitions into Alarms. It is safe for concurrent use.
type Compiler struct {
	env, changeEnv, stateEnv *cel.Env
}

// NewCompiler returns a Compiler. It fails only if the CEL environment is invalid.
func NewCompiler() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment: %w", err)
	}
	changeEnv, err := newChangeEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment of changes: %w", err)
	}
	stateEnv, err := newStateEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment of states: %w", err)
	}
	return &Compiler{env: env, changeEnv: changeEnv, stateEnv: stateEnv}, nil
}

// compilation is the compilation of one alarm.
type compilation struct {
	env, changeEnv, stateEnv *cel.Env
	// instructions is the number of instructions of all regular expressions so far.
	instructions int
}
