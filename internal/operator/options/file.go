package options

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// ReadFile reads a YAML file whose keys are the names of flags. It sets each flag that the
// command line does not set.
func ReadFile(path string, flags *pflag.FlagSet) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(raw, &values); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for name, value := range values {
		if err := set(flags, name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

func set(flags *pflag.FlagSet, name string, value any) error {
	flag := flags.Lookup(name)
	if flag == nil {
		return fmt.Errorf("unknown option %q: the keys are the names of the flags, without dashes in front", name)
	}
	if flag.Changed || value == nil {
		return nil // the command line has precedence; a key without a value keeps the default
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	for _, v := range list {
		if err := flags.Set(name, fmt.Sprint(v)); err != nil {
			return fmt.Errorf("option %q: %w", name, err)
		}
	}
	return nil
}
