package fields

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// maxDepth limits the depth of values that are compared, in maps and lists.
const maxDepth = 256

// encoder writes compact JSON with sorted keys, without values that may be secret. It stops
// soon after limit bytes.
type encoder struct {
	out   []byte
	limit int
}

func (e *encoder) value(value any, depth int) {
	switch v := value.(type) {
	case map[string]any:
		e.mapping(v, depth)
	case []any:
		e.list(v, depth)
	case string:
		e.text(v)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	default:
		e.number(scalar(value))
	}
}

func (e *encoder) number(value any) {
	switch v := value.(type) {
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case float64:
		e.out = strconv.AppendFloat(e.out, v, 'g', -1, 64)
	default:
		e.out = append(e.out, "null"...)
	}
}

func (e *encoder) mapping(m map[string]any, depth int) {
	e.out = append(e.out, '{')
	first := true
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if m[key] == nil || depth > maxDepth {
			continue
		}
		if len(e.out) > e.limit {
			break
		}
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.string(key)
		e.out = append(e.out, ':')
		if isSecretField(m, key) {
			e.string(hidden)
			continue
		}
		e.value(m[key], depth+1)
	}
	e.out = append(e.out, '}')
}

func (e *encoder) list(list []any, depth int) {
	e.out = append(e.out, '[')
	for i, entry := range list {
		if len(e.out) > e.limit || depth > maxDepth {
			break
		}
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if followsSecretFlag(list, i) {
			e.string(hidden)
			continue
		}
		e.value(entry, depth+1)
	}
	e.out = append(e.out, ']')
}

func (e *encoder) text(s string) {
	if isSecretText(s) {
		s = hidden
	}
	e.string(s[:min(len(s), e.limit)])
}

func (e *encoder) string(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string has no error
			e.out = append(e.out, quoted...)
			return
		}
	}
	e.out = append(e.out, '"')
	e.out = append(e.out, s...)
	e.out = append(e.out, '"')
}

// scalar returns the canonical form of a scalar value, or nil. A whole number is an int64.
func scalar(value any) any {
	switch v := value.(type) {
	case string, bool, int64:
		return v
	case float64:
		switch whole := int64(v); {
		case v >= -1<<63 && v < 1<<63 && float64(whole) == v:
			return whole
		case v-v == 0: // neither infinite nor NaN
			return v
		}
	}
	return nil
}

func isScalar(value any) bool { return scalar(value) != nil }
