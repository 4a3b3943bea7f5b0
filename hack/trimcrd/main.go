// Trimcrd makes the generated CRDs fit for use. Where a user's pod template is in
// one, it removes the descriptions, which would not fit into the annotation of a
// client-side apply (256 KiB), and lets `containers` be left out, since the template
// is merged into a pod that has them. Run by `make generate`:
//
//	go run ./hack/trimcrd config/crd
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trimcrd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: trimcrd DIRECTORY")
	}
	paths, err := filepath.Glob(filepath.Join(args[0], "*.yaml"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("there is no CRD in %s", args[0])
	}
	for _, path := range paths {
		if err := trimFile(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// trimFile writes a file only if there is a pod template in it.
func trimFile(path string) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := trim(before)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return os.WriteFile(path, after, 0o644)
}

// trim returns a CRD trimmed, and one without a pod template as it is.
func trim(before []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(before, &crd); err != nil {
		return nil, err
	}
	if !trimTemplates(crd) {
		return before, nil
	}
	after, err := yaml.Marshal(crd)
	return append([]byte("---\n"), after...), err
}
