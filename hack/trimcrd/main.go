// Trimcrd changes generated CRDs. It removes the descriptions of pod templates, because the
// CRD must fit into the annotation of a client-side apply (256 KiB). It makes `containers`
// optional, because the template is merged into a pod that has some. It limits the lists of a
// template, and numbers that Go cannot read. Outside of templates, it gives quantities a rule
// with a message, instead of a pattern. A rule about the name of an object names that field. A reference to a Secret gets its namespace in a
// ClusterAlarmReceiver only. Each CRD gets the labels of an installation, and an annotation
// that keeps Argo CD from deleting it. `make generate` runs it:
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
		return fmt.Errorf("no CRD in %s", args[0])
	}
	for _, path := range paths {
		if err := trimFile(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// trimFile writes a file if it must be trimmed.
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

// trim returns the trimmed CRD. A document that needs no change stays as it is, byte for byte.
func trim(before []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(before, &crd); err != nil {
		return nil, err
	}
	bounded, scoped, marked, named := boundNumbers(crd, false), scopeReferences(crd), mark(crd), declareName(crd)
	if !trimTemplates(crd) && !bounded && !scoped && !marked && !named {
		return before, nil
	}
	after, err := yaml.Marshal(crd)
	return append([]byte("---\n"), after...), err
}
