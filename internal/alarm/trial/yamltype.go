package trial

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// typeError replaces the error of a decoder if a value of the text has another type than its field. Its
// error names the path and the types, and never contains the value.
func typeError(text []byte, into any, err error) error {
	empty := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(text, empty)) // the other decoder does not export its error
	if err == nil || !ok {
		return err
	}
	is, _, _ := strings.Cut(wrong.Value, " ")
	path := cmp.Or(pathAt(text, wrong.Offset), "a time") // a time has a decoder of its own, which does not know where it is
	return fmt.Errorf("%s is %s: write %s", path, typeNames[is], nameOfType(wrong.Type))
}

// typeNames are the types of YAML by the names that the decoder uses.
var typeNames = map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object"}

// nameOfType returns what to write for a type of Go.
func nameOfType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return nameOfType(t.Elem())
	case reflect.String:
		return "a text, in quotes if it looks like something else"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Interface:
		return "an object"
	default:
		return "a whole number"
	}
}

// level is a list or an object around a value, with the index or the key of the value.
type level struct {
	list  bool
	index int
	key   string
}

func pathOf(levels []level) string {
	var b strings.Builder
	for _, l := range levels {
		if l.list {
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
		} else {
			b.WriteString("." + l.key)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// pathAt returns the path of the value at an offset of a JSON text, such as spec.match[0].reasons. It
// is empty if that is not known.
func pathAt(text []byte, offset int64) string {
	var levels []level
	decoder, isKey := json.NewDecoder(bytes.NewReader(text)), false
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		last := len(levels) - 1
		delim, _ := token.(json.Delim)
		if isKey && delim == 0 {
			levels[last].key, isKey = token.(string), false
			continue
		}
		if decoder.InputOffset() >= offset {
			return pathOf(levels)
		}
		switch delim {
		case '{', '[':
			levels = append(levels, level{list: delim == '['})
			isKey = delim == '{'
			continue
		case '}', ']':
			levels = slices.Delete(levels, last, last+1)
			last--
		}
		if last >= 0 {
			levels[last].index++
			isKey = !levels[last].list
		}
	}
}
