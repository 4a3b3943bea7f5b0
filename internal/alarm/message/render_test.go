package message

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestLabelsOfAMessageAreLimitedTogether(t *testing.T) {
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("key-%04d", i)] = strings.Repeat("v", 240)
	}
	total := 0
	kept := fields(many)
	for key, value := range kept {
		total += len(key) + len(value)
	}
	if total > maxFieldsLength || len(kept) == 0 || kept["key-0000"] == "" {
		t.Errorf("kept %d values with %d bytes, want the first values, up to %d bytes", len(kept), total, maxFieldsLength)
	}
}

func TestATitleWithoutAReasonIsTheObject(t *testing.T) {
	event := &alarm.Event{Regarding: alarm.Reference{Kind: "Node", Name: "node-0"}}
	if got := DefaultTitle(event); got != "Node node-0" {
		t.Errorf("%q", got)
	}
	event.Reason = "NodeNotReady"
	if got := DefaultTitle(event); got != "NodeNotReady: Node node-0" {
		t.Errorf("%q", got)
	}
}
