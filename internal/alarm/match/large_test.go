package match

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// largeObject returns an object as a tenant can create one: with a text of a MiB, and long lists
// and maps.
func largeObject(t *testing.T) map[string]any {
	object := deployment(t, "spec: {}")
	list, many := make([]any, 50_000), map[string]any{}
	for i := range list {
		list[i] = int64(i)
		many[strings.Repeat("k", i%7)+string(rune('a'+i%26))+string(rune(0x4e00+i%20_000))] = "v"
	}
	deep := any("x")
	for range 5_000 {
		deep = []any{deep}
	}
	long := strings.Repeat("a", 1<<20)
	object["spec"] = map[string]any{
		"long": long, "needle": long[:1<<19] + "b", "list": list, "some": list[:maxElements], "many": many, "deep": deep,
	}
	return object
}

func evaluateLarge(t *testing.T, expression string) (Result, int64) {
	t.Helper()
	a := mustCompile(t, onChanges(t, "[{resource: {apiGroup: apps, resource: deployments}, operations: [Create], expression: '"+expression+"'}]"))
	occ := changeOf(alarm.Create, nil, largeObject(t))
	vars := &variables{event: &occ.Event, change: occ.Change, context: changeContext(occ)}
	return a.entries[0].evaluate(t.Context(), vars), vars.cost
}

// These calls took up to minutes, and nothing interrupted them.
func TestCallsOnLargeObjectsFailBeforeTheyTakeLong(t *testing.T) {
	for name, expression := range map[string]string{
		"regular expression":            `object.spec.long.matches("(a?){200}z$")`,
		"regular expression, as prefix": `matches(object.spec.long, "(a?){200}z$")`,
		"search":                        `object.spec.long.indexOf(object.spec.needle) == 3`,
		"search from the end":           `object.spec.long.lastIndexOf(object.spec.needle, 9) == 3`,
		"loop with a conditional":       `object.spec.list.exists_one(k, k == 1)`,
		"loop over a map":               `object.spec.many.exists_one(k, k == "b")`,
		"search in a loop":              `object.spec.list.all(k, k in object.spec.list)`,
		"deep value, printed":           `"%s".format([object.spec.deep]) == ""`,
	} {
		t.Run(name, func(t *testing.T) {
			atMost := int64(2 * maxCost)
			if strings.HasPrefix(name, "search") { // cel-go bills it
				atMost = maxBilled
			}
			if got, cost := evaluateLarge(t, expression); got.Outcome != Failed || cost > atMost {
				t.Errorf("got %+v for %d, want a failure", got, cost)
			}
		})
	}
}

// cel-go does not know the overload of a call whose arguments it only knows at run time.
func TestCallsOfUnknownTypesAreBilledByTheSizeOfTheirArguments(t *testing.T) {
	for expression, atLeast := range map[string]int64{
		`size(object.spec.long) > 0`:                                100_000,
		`object.spec.long <= object.spec.long`:                      100_000,
		`int(object.spec.long) == 0`:                                100_000,
		`-1 in object.spec.list`:                                    50_000,
		`math.greatest(object.spec.some) > 0`:                       2_000,
		`object.spec.many == object.spec.many`:                      100_000,
		`object.spec.some.exists_one(k, k == 1)`:                    100_000,
		`object.spec.some.all(k, k >= 0 ? true : false)`:            100_000,
		`object.spec.list.size() == 50000 && 7 in object.spec.some`: 2_000,
	} {
		if got, cost := evaluateLarge(t, expression); cost < atLeast {
			t.Errorf("%s: got %+v for %d, want at least %d", expression, got, cost, atLeast)
		}
	}
}

func TestALongListOfAnObjectHasASizeAndElements(t *testing.T) {
	const expression = `object.spec.list.size() == 50000 && object.spec.list[7] == 7 && "b" in object.spec.many == ("b" in object.spec.many)`
	if got, cost := evaluateLarge(t, expression); got.Outcome != Matched {
		t.Errorf("got %+v for %d, want a match", got, cost)
	}
}
