package match

import (
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/checker"
)

// maxCost bounds an expression, or all expressions of a template together, in
// CEL's units of cost: by estimate when it is compiled, and again while it runs,
// for texts that are longer than estimated.
const maxCost = 100_000

// noBound is beyond what any expression over values of bounded size costs.
const unboundedCost = math.MaxUint64 / 1_000_000

// checkCost refuses the expression, at the offset in the field's text, if it is
// estimated to cost too much.
func (e *expression) checkCost(text string, offset int) error {
	switch {
	case e.cost <= maxCost:
		return nil
	case e.cost > unboundedCost:
		return expressionError(e.field, text, offset, "its cost has no bound; the limit is %d", maxCost)
	default:
		return expressionError(e.field, text, offset, "its cost may reach %d; the limit is %d", e.cost, maxCost)
	}
}

// maxSizes are the sizes that costs are estimated with: characters of texts,
// entries of maps. They are the API's limits where it has one.
var maxSizes = map[string]uint64{
	"event.note":                   1024,
	"event.reason":                 128,
	"event.action":                 128,
	"object.cause":                 1024,
	"object.metadata.labels":       64,
	"object.metadata.annotations":  64,
	"object.node.capacity":         64,
	"object.metadata.labels.value": 63,
	// As many values as estimated of this size are the 256 KiB that the API
	// server allows to all annotations of an object.
	"object.metadata.annotations.value": 4096,
	"object.node.capacity.value":        64,
}

const (
	// maxNameSize is of names, and what else has no size of its own here.
	maxNameSize = 253
	// maxKeySize is of a qualified name: prefix, slash and name.
	maxKeySize = 253 + 1 + 63
	// maxScalarText is of a number, bool, time or duration as text.
	maxScalarText = 64
)

// sizes implements checker.CostEstimator.
type costEstimator struct{}

// EstimateSize implements checker.CostEstimator.
func (costEstimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	switch len(path) {
	case 0:
		return nil
	case 1:
		return &checker.SizeEstimate{Min: 1, Max: 1} // a variable: an object, which has no size
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
	// A value of a map, by whatever key.
	if size, ok := maxSizes[strings.Join(append(slices.Clone(parent), "value"), ".")]; ok {
		return size
	}
	return maxNameSize
}

// EstimateCallCost implements checker.CostEstimator: it tells the size of what
// CEL does not know to be small.
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
