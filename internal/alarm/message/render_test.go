package message

import (
	"fmt"
	"strings"
	"testing"
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
