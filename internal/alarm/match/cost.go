package match

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// maxCost limits the cost of an expression, or of all expressions of a template together,
// in CEL's cost units. Compilation checks the estimate. Evaluation checks the real cost,
// because texts can be longer than estimated.
const maxCost = 100_000

// maxBilled is the highest cost of an evaluation. cel-go bills a call that was refused, because its
// arguments are too long, like one that was done.
const maxBilled = 10 * maxCost

// unboundedCost is higher than the cost of any expression over values of limited size.
const unboundedCost = math.MaxUint64 / 1_000_000

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

	"message.title":                message.MaxTitleLength,
	"message.text":                 message.MaxTextLength,
	"message.events":               message.MaxListedEvents,
	"message.events.@items.note":   message.MaxFieldLength,
	"message.events.@items.reason": 128,
	"message.group.by":             8,

	"message.events.@items.object.cause":             message.MaxFieldLength,
	"message.events.@items.object.labels":            64,
	"message.events.@items.object.annotations":       64,
	"message.events.@items.object.labels.value":      63,
	"message.events.@items.object.annotations.value": message.MaxFieldLength,
}

const (
	// maxNameSize is the size of names and of everything not in maxSizes.
	maxNameSize = 253
	// maxKeySize is the size of a qualified name: prefix, slash and name.
	maxKeySize = 253 + 1 + 63
	// maxScalarText is the size of a number, bool, time or duration as text.
	maxScalarText = 64
)

// Limits of the values that an expression makes. Every function takes little time with
// such values, so that an evaluation soon reaches its cost limit. They apply after a call,
// except to the functions of [limitTexts]. One call can therefore exceed them twofold.
const (
	// maxTextSize is in bytes. No field of an Event or object is longer than 4 KiB.
	maxTextSize = 16 << 10
	// maxElements is the number of elements of a list. Loops are over so many elements at most,
	// also of a list or map that an object contains.
	maxElements = 2_000
)

var errTooExpensive = fmt.Errorf("the cost exceeds %d, or a value is too long (a text over %d bytes, a list over %d elements): write a cheaper expression",
	maxCost, maxTextSize, maxElements)

// Costs of operations that take longer than one unit, which is 50 to 150 ns.
// BenchmarkCostUnit measures it.
const (
	// zoneCost is the cost of loading a time zone.
	zoneCost = 500
	// objectCost is the cost of comparing two objects, for example event == event.
	objectCost = 200
	// longEntryCost is the cost of comparing an entry of a map that is too long for a loop.
	longEntryCost = 4
	// conditionsPerUnit is the number of conditions of an object that are compared in one unit.
	conditionsPerUnit = 4
	// bytesPerUnit is the size of a text that is read in one unit.
	bytesPerUnit = 10
	// matchStepsPerUnit is the number of instructions of a regular expression that take
	// one unit for one character. Each takes 4 to 13 ns.
	matchStepsPerUnit = 16
)

// matchCost returns the cost of matching a regular expression. The worst case is a
// pattern whose instructions are all active at each character.
func matchCost(instructions int, characters uint64) uint64 {
	steps := float64(instructions) * (float64(characters) + 1) / matchStepsPerUnit
	if steps >= math.MaxUint64/2 {
		return math.MaxUint64
	}
	return 1 + uint64(steps)
}

// callCosts returns the costs of functions that cel-go bills too low. cel-go takes the
// time of most functions for constant. It takes that of a regular expression for
// proportional to the length of the pattern.
//
// It implements checker.CostEstimator, with the sizes that values can have. It also
// implements interpreter.ActualCostEstimator, with their real sizes.
type callCosts struct {
	// patterns are the regular expressions in the expression.
	patterns patterns
}

// EstimateSize implements checker.CostEstimator.
func (callCosts) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
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

// EstimateCallCost implements checker.CostEstimator.
func (c callCosts) EstimateCallCost(_, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if target != nil {
		args = append([]checker.AstNode{*target}, args...)
	}
	size := func(i int) uint64 {
		if computed := args[i].ComputedSize(); computed != nil {
			return computed.Max
		}
		return math.MaxUint64 / 2
	}
	switch expensive[overload] {
	case matchesPattern:
		pattern, _ := literalText(args[1].Expr())
		return estimate(matchCost(c.patterns.byText[pattern], size(0)))
	case formatsText:
		return &checker.CallEstimate{
			CostEstimate: checker.CostEstimate{Max: 1 + maxTextSize/bytesPerUnit},
			ResultSize:   &checker.SizeEstimate{Max: maxTextSize},
		}
	case printsScalar:
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(1), ResultSize: &checker.SizeEstimate{Max: maxScalarText}}
	case readsText:
		return estimate(1 + size(0)/bytesPerUnit)
	case readsList:
		return estimate(1 + size(0))
	case loadsZone:
		return estimate(zoneCost)
	case searchesConditions:
		return estimate(1 + maxNameSize/conditionsPerUnit)
	case addsList, comparesValues, searchesList, cheap: // cel-go's estimates are good
	}
	return nil
}

func estimate(highest uint64) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: highest}}
}

// choiceStepsPerUnit is the number of steps of one unit in the search of cel-go's cost tracker. It
// searches all former steps of a loop at each conditional.
const choiceStepsPerUnit = 150

// choiceCost returns the additional cost of an expression with a conditional in a loop.
func choiceCost(cost uint64) uint64 {
	const perElement = 5 // of a loop
	return cost * min(cost, maxElements*perElement) / choiceStepsPerUnit
}

// choosesInLoop reports whether an expression has a conditional in a loop, as exists_one does.
func choosesInLoop(checked *cel.Ast) bool {
	isChoice := func(e ast.NavigableExpr) bool { return isCall(e, operators.Conditional) }
	for _, loop := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind)) {
		if len(ast.MatchDescendants(loop, isChoice)) > 0 {
			return true
		}
	}
	return false
}

// expense says what takes the time of a function that cel-go bills too low.
type expense int

const (
	cheap expense = iota
	matchesPattern
	formatsText
	// printsScalar: the size of the result is not known to cel-go.
	printsScalar
	readsText
	readsList
	addsList
	comparesValues
	searchesList
	loadsZone
	searchesConditions
)

// expensive contains the functions that cel-go bills too low, by their overloads.
var expensive = map[string]expense{
	overloads.Matches: matchesPattern, overloads.MatchesString: matchesPattern,

	overloads.ExtFormatString: formatsText,

	overloads.IntToString: printsScalar, overloads.UintToString: printsScalar, overloads.DoubleToString: printsScalar,
	overloads.BoolToString: printsScalar, overloads.TimestampToString: printsScalar, overloads.DurationToString: printsScalar,

	overloads.SizeString: readsText, overloads.SizeStringInst: readsText, overloads.StringToBool: readsText,
	overloads.StringToInt: readsText, overloads.StringToUint: readsText, overloads.StringToDouble: readsText,
	overloads.StringToTimestamp: readsText, overloads.StringToDuration: readsText,

	"math_@min_list_int": readsList, "math_@min_list_uint": readsList, "math_@min_list_double": readsList,
	"math_@max_list_int": readsList, "math_@max_list_uint": readsList, "math_@max_list_double": readsList,

	overloads.AddList: addsList, conditionOverload: searchesConditions,
	overloads.Equals: comparesValues, overloads.NotEquals: comparesValues,
	overloads.InList: searchesList,

	overloads.TimestampToYearWithTz: loadsZone, overloads.TimestampToMonthWithTz: loadsZone,
	overloads.TimestampToDayOfYearWithTz: loadsZone, overloads.TimestampToDayOfMonthZeroBasedWithTz: loadsZone,
	overloads.TimestampToDayOfMonthOneBasedWithTz: loadsZone, overloads.TimestampToDayOfWeekWithTz: loadsZone,
	overloads.TimestampToHoursWithTz: loadsZone, overloads.TimestampToMinutesWithTz: loadsZone,
	overloads.TimestampToSecondsWithTz: loadsZone, overloads.TimestampToMillisecondsWithTz: loadsZone,
}

// CallCost implements interpreter.ActualCostEstimator. It ends the evaluation if the
// result is too long. cel-go does not call it for functions of strings that have a cost
// there. The results of these are as long as their arguments, or limited by [limitTexts].
func (c callCosts) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if overload == "" {
		return dynamicCost(function, args, result)
	}
	var cost uint64
	switch expensive[overload] {
	case matchesPattern:
		pattern, _ := args[1].(types.String)
		text, _ := args[0].(types.String)
		cost = 1 + length(text)/bytesPerUnit
		if !types.IsError(result) { // otherwise, the text was too long to begin
			cost = matchCost(c.patterns.byText[string(pattern)], uint64(utf8.RuneCountInString(string(text))))
		}
	case formatsText:
		cost = 1 + length(result)/bytesPerUnit
	case readsText:
		cost = 1 + length(args[0])/bytesPerUnit
	case readsList:
		cost = 1 + length(args[0])
	case addsList:
		cost = 1 + length(args[1])
	case comparesValues:
		return comparisonCost(args)
	case searchesList:
		cost = 1 + readCost(args[1])
	case loadsZone:
		cost = zoneCost
	case searchesConditions:
		cost = 1 + uint64(len(conditionsOf(args[0].Value())))/conditionsPerUnit
	case printsScalar, cheap:
		if !tooLong(result) {
			return nil
		}
	}
	if tooLong(result) {
		cost = maxCost + 1
	}
	return &cost
}

// dynamicCost is CallCost for arguments whose types are only known at run time. cel-go takes the
// time of such calls for constant.
func dynamicCost(function string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	for _, arg := range args {
		switch value := arg.(type) {
		case types.String, types.Bytes:
			cost += length(value) / bytesPerUnit
		case traits.Lister:
			if slices.Contains(readingLists, function) {
				cost += readCost(value)
			}
		}
	}
	if tooLong(result) {
		cost = maxCost + 1
	}
	return &cost
}

// readingLists are the functions with several overloads that read all elements of a list.
var readingLists = []string{operators.In, "math.@min", "math.@max", operators.Add}

// comparisonCost returns the cost of comparing lists, maps or objects, or nil for others.
func comparisonCost(args []ref.Val) *uint64 {
	for _, arg := range args {
		switch arg.(type) {
		case traits.Lister, traits.Mapper, structValue:
			cost := 1 + min(readCost(args[0]), readCost(args[1]))
			return &cost
		}
	}
	return nil
}

// readCost returns the cost of reading a value with all its elements. They are no lists or
// maps themselves: see [checkTypes].
func readCost(value ref.Val) uint64 {
	var cost uint64
	switch v := value.(type) {
	case structValue:
		return objectCost
	case longMap: // it cannot be iterated
		return longEntryCost * sizeOf(v)
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			cost += readCost(key) + readCost(v.Get(key))
		}
		return cost
	case traits.Lister:
		for i := range length(v) {
			cost += readCost(v.Get(types.Int(i)))
		}
		return cost
	}
	return 1 + length(value)/bytesPerUnit
}

// length returns the bytes of a text or the elements of a list. It is 0 for other values.
func length(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Lister:
		return sizeOf(v)
	}
	return 0
}

func sizeOf(v traits.Sizer) uint64 {
	n, _ := v.Size().(types.Int)
	return uint64(n)
}

func tooLong(value ref.Val) bool {
	if _, ok := value.(traits.Lister); ok {
		return length(value) > maxElements
	}
	return length(value) > maxTextSize
}

// limitTexts makes functions fail whose result would be a text that is too long, or which would
// search too long. Their memory or time is the product of the lengths of their arguments. An
// object can contain texts of a MiB, so that one call could fill the memory, or take minutes.
func limitTexts(names ...string) cel.EnvOption {
	return func(env *cel.Env) (*cel.Env, error) {
		for _, name := range names {
			function := env.Functions()[name]
			implementations, err := function.Bindings()
			if err != nil {
				return nil, err
			}
			limited := map[string]cel.OverloadOpt{}
			for _, i := range implementations {
				limited[i.Operator] = limitText(i)
			}
			for _, o := range function.OverloadDecls() {
				overload := cel.MemberOverload(o.ID(), o.ArgTypes(), o.ResultType(), limited[o.ID()])
				if env, err = cel.Function(name, overload)(env); err != nil {
					return nil, err
				}
			}
		}
		return env, nil
	}
}

var errTextTooLong = fmt.Errorf("a text would be longer than %d bytes: shorten it", maxTextSize)

// limitText returns the implementation of a function, with the limit.
func limitText(i *functions.Overload) cel.OverloadOpt {
	limited := func(call func() ref.Val, args ...ref.Val) ref.Val {
		switch {
		case isSearch(i.Operator) && length(args[0])*length(args[1])/bytesPerUnit > maxCost:
			return types.WrapErr(errTooExpensive)
		case !isSearch(i.Operator) && resultSize(i.Operator, args...) > maxTextSize:
			return types.WrapErr(errTextTooLong)
		}
		return call()
	}
	switch {
	case i.Unary != nil:
		return cel.UnaryBinding(func(arg ref.Val) ref.Val {
			return limited(func() ref.Val { return i.Unary(arg) }, arg)
		})
	case i.Binary != nil:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return limited(func() ref.Val { return i.Binary(a, b) }, a, b)
		})
	default:
		return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			return limited(func() ref.Val { return i.Function(args...) }, args...)
		})
	}
}

// isSearch reports whether an overload is one of indexOf or lastIndexOf.
func isSearch(overload string) bool {
	return strings.HasPrefix(overload, "string_index_of") || strings.HasPrefix(overload, "string_last_index_of")
}

// limitMatches makes matches fail for a text that would take too long, because nothing
// interrupts a match.
func limitMatches(found patterns) cel.ProgramOption {
	limited := func(overload string) *interpreter.RegexOptimization {
		return &interpreter.RegexOptimization{
			Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
				compiled, err := regexp.Compile(pattern)
				if err != nil {
					return nil, err
				}
				n := found.byText[pattern]
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
					text, ok := args[0].(types.String)
					switch {
					case !ok:
						return types.MaybeNoSuchOverloadErr(args[0])
					case matchCost(n, uint64(utf8.RuneCountInString(string(text)))) > maxCost:
						return types.WrapErr(errTooExpensive)
					}
					return types.Bool(compiled.MatchString(string(text)))
				}), nil
			},
		}
	}
	return cel.OptimizeRegex(limited(overloads.Matches), limited(overloads.MatchesString))
}

// resultSize returns the highest possible size of the result of format, join or replace.
// It counts a number in format as maxScalarText, although %.100f makes it a few times
// longer.
func resultSize(overload string, args ...ref.Val) uint64 {
	switch {
	case strings.HasPrefix(overload, "string_replace"):
		text, _ := args[0].(types.String)
		before, _ := args[1].(types.String)
		after, _ := args[2].(types.String)
		return length(text) + uint64(strings.Count(string(text), string(before)))*length(after)
	case strings.HasPrefix(overload, "list_join"):
		var separators uint64
		if len(args) > 1 {
			separators = length(args[0]) * length(args[1])
		}
		return separators + printedSize(args[0], maxTextSize)
	default:
		return length(args[0]) + printedSize(args[1], maxTextSize)
	}
}

// maxPrintedDepth is the number of lists and maps within each other that are printed. The time
// grows with its square.
const maxPrintedDepth = 32

// printedSize returns the size of a value as text. It stops counting above limit, because
// the same list can be contained in another one many times. Values that are nested too deeply
// are above limit.
func printedSize(value ref.Val, limit uint64) uint64 { return printedSizeAt(value, limit, 0) }

func printedSizeAt(value ref.Val, limit uint64, depth int) uint64 {
	var size uint64
	if depth > maxPrintedDepth {
		return limit + 1
	}
	switch v := value.(type) {
	case types.String, types.Bytes:
		return length(v)
	case traits.Mapper:
		for it := v.Iterator(); size <= limit && it.HasNext() == types.True; {
			key := it.Next()
			size += 2 + printedSizeAt(key, limit, depth+1) + printedSizeAt(v.Get(key), limit, depth+1)
		}
		return size
	case traits.Lister:
		for it := v.Iterator(); size <= limit && it.HasNext() == types.True; {
			size += 2 + printedSizeAt(it.Next(), limit-size, depth+1)
		}
		return size
	}
	return maxScalarText
}
