package match

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
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
// under their Go names. A field is a string, int64, time.Time, map[string]string or
// struct.
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
	}
	if goType.Kind() != reflect.Struct {
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
		t.fields[name] = &types.FieldType{Type: celType, IsSet: isSet(i), GetFrom: getFrom(i)}
	}
	return t.Type, nil
}

func isSet(field int) func(any) bool {
	return func(pointer any) bool {
		return !reflect.ValueOf(pointer).Elem().Field(field).IsZero()
	}
}

func getFrom(field int) func(any) (any, error) {
	return func(pointer any) (any, error) {
		value := reflect.ValueOf(pointer).Elem().Field(field)
		if t, ok := reflect.TypeAssert[*time.Time](value.Addr()); ok {
			return epochIfZero(*t), nil
		}
		if value.Kind() == reflect.Struct {
			return value.Addr().Interface(), nil
		}
		return value.Interface(), nil
	}
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
	return s.Adapter.NativeToValue(value)
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
