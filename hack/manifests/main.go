// Manifests makes config a kustomize base: it writes the kustomization and the workload of the
// Helm chart. It also writes the admission policies of receivers, and labels the generated roles.
// `make generate` runs it in the root of the repository:
//
//	go run ./hack/manifests
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/chart"
)

const (
	base = "config"
	// workload is the part of the base that is rendered from the chart.
	workload = "workload/bongsu.yaml"
	// namespace is the namespace in the manifests of config.
	namespace = "bongsu-system"
)

func main() {
	if err := errors.Join(writeReceiverPolicies(), labelRoles(), writeBase()); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// writeBase writes the files that make config a kustomize base.
func writeBase() error {
	values, err := chart.Values(nil, nil)
	if err != nil {
		return err
	}
	objects, err := chart.Render(namespace, values)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString("# Generated from charts/bongsu, with its defaults.\n")
	if err := chart.WriteYAML(&text, chart.Workload(objects)); err != nil {
		return err
	}
	list, err := kustomization(objects)
	return errors.Join(err, write(workload, text.Bytes()), write("kustomization.yaml", list))
}

// kustomization lists the files of the base, because kustomize has no globs. It omits those of
// features that are off by default.
func kustomization(installed chart.Manifests) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString(`# Generated. To install everything: kubectl apply -k config
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
labels:
- pairs: {app.kubernetes.io/name: bongsu, app.kubernetes.io/part-of: bongsu}
sortOptions: {order: fifo}
resources:
`)
	for _, dir := range config.Dirs() {
		names, err := fs.Glob(config.Files(), path.Join(dir, "*.yaml"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			wanted, err := isInstalled(name, installed)
			if err != nil {
				return nil, err
			}
			if wanted {
				fmt.Fprintf(&text, "- %s\n", name)
			}
		}
	}
	fmt.Fprintf(&text, "- %s\n", workload)
	return text.Bytes(), nil
}

// isInstalled reports whether an installation with the default values has an object of a file.
func isInstalled(name string, installed chart.Manifests) (bool, error) {
	f, err := config.Files().Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	objects, err := config.Decode(f)
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(installed, func(other *unstructured.Unstructured) bool {
			return o.GetKind() == other.GetKind() && o.GetName() == other.GetName()
		})
	}), err
}

func write(name string, data []byte) error {
	target := filepath.Join(base, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o644)
}

// labels are those of all objects of an installation. `bongsu uninstall` selects by part-of.
const labels = "  labels: {app.kubernetes.io/name: bongsu, app.kubernetes.io/part-of: bongsu}\n"

// labelRoles adds the labels to the roles that controller-gen wrote, which has no option for it.
func labelRoles() error {
	paths, err := filepath.Glob(filepath.Join(base, "rbac", "role-*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		const metadata = "\nmetadata:\n"
		text = bytes.ReplaceAll(text, []byte(metadata+labels), []byte(metadata))
		text = bytes.ReplaceAll(text, []byte(metadata), []byte(metadata+labels))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
