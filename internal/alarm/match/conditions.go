package match

import (
	"time"

	"github.com/google/cel-go/common/ast"

	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

// Condition is an entry of status.conditions. All fields are empty if there is none.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

const (
	varNow = "now"
	// conditionFunction is the name of the function that returns a condition of the object.
	conditionFunction = "condition"
	conditionOverload = "condition_of_object"
)

func conditionsOf(object any) []any {
	content, _ := object.(map[string]any)
	status, _ := content["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	return conditions
}

// conditionOf returns the first condition of a type.
func conditionOf(object any, name string) *Condition {
	for _, entry := range conditionsOf(object) {
		c, _ := entry.(map[string]any)
		if c["type"] != name {
			continue
		}
		text := func(key string) string {
			value, _ := c[key].(string)
			return value
		}
		at, _ := time.Parse(time.RFC3339, text("lastTransitionTime")) // zero if it is unknown
		return &Condition{Type: name, Status: text("status"), Reason: text("reason"), Message: text("message"), LastTransitionTime: at}
	}
	return &Condition{}
}

// conditionFields are the fields that the function condition reads. Others, such as the time of
// the last heartbeat, change often.
var conditionFields = []string{"type", "status", "reason", "message", "lastTransitionTime"}

// readsOfConditions returns what an expression reads of the object with the function condition.
func readsOfConditions() (reads []fields.Path) {
	for _, field := range conditionFields {
		path, err := fields.Parse("status.conditions[*]." + field)
		if err != nil {
			panic(err) // it is a constant
		}
		reads = append(reads, path)
	}
	return reads
}

// isConditionOf reports whether a use of object is the argument of the function condition.
func isConditionOf(use ast.NavigableExpr) bool {
	parent, ok := use.Parent()
	return ok && isCall(parent, conditionFunction) && parent.AsCall().Args()[0].ID() == use.ID()
}
