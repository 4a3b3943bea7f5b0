package match

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// structs lets expressions read the fields of Go structs by their JSON names. cel-go's
// NativeTypes does the same but inspects the struct at each access, which costs more than
// the rest of an expression.
type structs struct {
	types.Provider
	types.Adapter
	byName map[string]*structType
	byType map[reflect.Type]*structType
}

// structType describes a struct for CEL. Values are pointers to the struct.
type structType struct {
	*types.Type
	fields map[string]*types.FieldType
}

// structTypes adds the types of these structs, and of their fields, to the environment
// under their Go names. A field is a string, bool, int64, time.Time, map[string]string,
// struct, pointer to a struct, or slice of structs.
func structTypes(roots ...reflect.Type) cel.EnvOption {
	return func(env *cel.Env) (*cel.Env, error) {
		s := &structs{
			Provider: env.CELTypeProvider(),
			Adapter:  env.CELTypeAdapter(),
			byName:   map[string]*structType{},
			byType:   map[reflect.Type]*structType{},
		}
		for _, root := range roots {
			if _, err := s.typeOf(root); err != nil {
				return nil, err
			}
		}
		env, err := cel.CustomTypeAdapter(s)(env)
		if err != nil {
			return nil, err
		}
		return cel.CustomTypeProvider(s)(env)
	}
}

func (s *structs) typeOf(goType reflect.Type) (*types.Type, error) {
	switch goType {
	case reflect.TypeFor[string]():
		return types.StringType, nil
	case reflect.TypeFor[int64]():
		return types.IntType, nil
	case reflect.TypeFor[time.Time]():
		return types.TimestampType, nil
	case reflect.TypeFor[map[string]string]():
		return types.NewMapType(types.StringType, types.StringType), nil
	case reflect.TypeFor[bool]():
		return types.BoolType, nil
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return s.typeOf(goType.Elem())
	case reflect.Slice:
		element, err := s.typeOf(goType.Elem())
		return types.NewListType(element), err
	case reflect.Struct:
	default:
		return nil, fmt.Errorf("type %s has no type in CEL", goType)
	}
	if known, ok := s.byType[reflect.PointerTo(goType)]; ok {
		return known.Type, nil
	}
	return s.register(goType)
}

func (s *structs) register(goType reflect.Type) (*types.Type, error) {
	t := &structType{Type: types.NewObjectType(goType.Name()), fields: map[string]*types.FieldType{}}
	s.byName[goType.Name()] = t
	s.byType[reflect.PointerTo(goType)] = t
	for i := range goType.NumField() {
		f := goType.Field(i)
		celType, err := s.typeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", goType.Name(), f.Name, err)
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		t.fields[name] = &types.FieldType{Type: celType, IsSet: isSet(i), GetFrom: s.getFrom(i)}
	}
	return t.Type, nil
}

func isSet(field int) func(any) bool {
	return func(pointer any) bool {
		return !reflect.ValueOf(pointer).Elem().Field(field).IsZero()
	}
}

func (s *structs) getFrom(field int) func(any) (any, error) {
	return func(pointer any) (any, error) {
		value := reflect.ValueOf(pointer).Elem().Field(field)
		if t, ok := reflect.TypeAssert[*time.Time](value.Addr()); ok {
			return epochIfZero(*t), nil
		}
		switch value.Kind() {
		case reflect.Struct:
			return value.Addr().Interface(), nil
		case reflect.Pointer:
			if value.IsNil() {
				return reflect.New(value.Type().Elem()).Interface(), nil
			}
		case reflect.Slice:
			return s.list(value), nil
		default: // CEL has the type
		}
		return value.Interface(), nil
	}
}

// list returns a slice of structs as a list.
func (s *structs) list(slice reflect.Value) ref.Val {
	elements := make([]ref.Val, slice.Len())
	for i := range elements {
		elements[i] = s.NativeToValue(slice.Index(i).Addr().Interface())
	}
	return types.NewRefValList(s, elements)
}

// epochIfZero returns the epoch for the zero time. A CEL duration cannot span the time
// between the year 1 and other times.
func epochIfZero(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// FindStructType implements types.Provider.
func (s *structs) FindStructType(name string) (*types.Type, bool) {
	if t, ok := s.byName[name]; ok {
		return types.NewTypeTypeWithParam(t.Type), true
	}
	return s.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (s *structs) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if t, ok := s.byName[name]; ok {
		f, ok := t.fields[field]
		return f, ok
	}
	return s.Provider.FindStructFieldType(name, field)
}

// NativeToValue implements types.Adapter.
func (s *structs) NativeToValue(value any) ref.Val {
	if t, ok := s.byType[reflect.TypeOf(value)]; ok {
		return structValue{structType: t, pointer: value}
	}
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && s.byType[reflect.PointerTo(list.Type().Elem())] != nil {
		return s.list(list)
	}
	switch v := value.(type) {
	case []any:
		return limitList(types.NewDynamicList(s, v), len(v))
	case map[string]any:
		return limitMap(types.NewStringInterfaceMap(s, v), len(v))
	case map[string]string:
		return limitMap(types.NewStringStringMap(s, v), len(v))
	}
	return s.Adapter.NativeToValue(value)
}

// longList and longMap end the evaluation if a loop begins: cel-go's time for a loop can grow with
// the square of its length.
type (
	longList struct{ traits.Lister }
	longMap  struct{ traits.Mapper }
)

// Iterator implements traits.Iterable.
func (longList) Iterator() traits.Iterator { panic(errLongLoop) }

// Iterator implements traits.Iterable.
func (longMap) Iterator() traits.Iterator { panic(errLongLoop) }

// errLongLoop ends an evaluation like a cost above the limit.
var errLongLoop = interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "the loop is too long"}

func limitList(list traits.Lister, length int) ref.Val {
	if length > maxElements {
		return longList{list}
	}
	return list
}

func limitMap(m traits.Mapper, length int) ref.Val {
	if length > maxElements {
		return longMap{m}
	}
	return m
}

// structValue is a struct as a CEL value. structType reads its fields. Otherwise, it can
// only be compared.
type structValue struct {
	structType *structType
	pointer    any
}

// ConvertToNative implements ref.Val.
func (v structValue) ConvertToNative(reflect.Type) (any, error) { return nil, errNotPrintable }

// ConvertToType implements ref.Val.
func (v structValue) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return v.structType.Type
	}
	return types.WrapErr(errNotPrintable)
}

// Equal implements ref.Val.
func (v structValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(structValue)
	return types.Bool(ok && reflect.DeepEqual(v.pointer, o.pointer))
}

// Type implements ref.Val.
func (v structValue) Type() ref.Type { return v.structType.Type }

// Value implements ref.Val.
func (v structValue) Value() any { return v.pointer }
