package match

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// maxPrinted is where a list or map ends, in bytes of the text so far: no more
// of a text is ever sent.
const maxPrinted = 4 * message.MaxTextLength

// print runs the expression and writes its value as a reader expects it: texts
// as they are, times as RFC 3339, durations as 1h2m3s, lists and maps like JSON.
func (e *expression) print(ctx context.Context, b *strings.Builder, vars *variables) error {
	value, err := e.eval(ctx, vars)
	if err != nil {
		return err
	}
	if text, ok := value.(types.String); ok {
		b.WriteString(string(text))
		return nil
	}
	if err := printValue(b, value); err != nil {
		return fmt.Errorf("%s: %w", e.field, err)
	}
	return nil
}

func printValue(b *strings.Builder, value ref.Val) error {
	switch v := value.(type) {
	case types.String:
		b.WriteString(strconv.Quote(string(v)))
	case types.Duration:
		b.WriteString(v.Duration.String())
	case types.Timestamp:
		b.WriteString(v.UTC().Format(time.RFC3339))
	case types.Null:
		b.WriteString("null")
	case traits.Mapper:
		return printMap(b, v)
	case traits.Lister:
		return printList(b, v)
	default:
		text, ok := value.ConvertToType(types.StringType).(types.String)
		if !ok {
			return errNotPrintable
		}
		b.WriteString(string(text))
	}
	return nil
}

func printList(b *strings.Builder, list traits.Lister) error {
	b.WriteByte('[')
	for it, n := list.Iterator(), 0; it.HasNext() == types.True && b.Len() < maxPrinted; n++ {
		if n > 0 {
			b.WriteString(", ")
		}
		if err := printValue(b, it.Next()); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// printMap sorts by key, so that the same map always reads the same.
func printMap(b *strings.Builder, m traits.Mapper) error {
	members := map[string]ref.Val{}
	keys := []string{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		var key strings.Builder
		k := it.Next()
		if err := printValue(&key, k); err != nil {
			return err
		}
		keys = append(keys, key.String())
		members[key.String()] = m.Get(k)
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for n, key := range keys {
		if b.Len() >= maxPrinted {
			break
		}
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(key + ": ")
		if err := printValue(b, members[key]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}
