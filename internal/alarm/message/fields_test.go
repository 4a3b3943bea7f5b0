package message

import (
	"fmt"
	"strings"
	"testing"
)

func TestLabelsAndAnnotationsOfAMessageAreBoundedTogether(t *testing.T) {
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
		t.Errorf("kept %d values of %d bytes, want the first ones, up to %d bytes", len(kept), total, maxFieldsLength)
	}
}
