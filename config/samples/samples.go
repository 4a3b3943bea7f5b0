// Package samples embeds sample alarms, receivers, shares, notebooks and apps. Apply one of
// the receivers: they all have the name that the alarms send to.
package samples

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
)

//go:embed *.yaml states/*.yaml receivers/*.yaml secrets/*.yaml jupyter/*.yaml appservice/*.yaml
var files embed.FS

// Receiver is the name of the ClusterAlarmReceiver that the sample alarms send to.
const Receiver = "ops"

// Alarms returns all sample alarms and the objects they need, except the receiver.
func Alarms() ([]*unstructured.Unstructured, error) { return decode("*.yaml") }

// States returns the sample alarms on states.
func States() ([]*unstructured.Unstructured, error) { return decode("states/*.yaml") }

// ReceiverOf returns the sample receiver of a type, for example log, slack or webhook, and
// the objects it needs.
func ReceiverOf(sink string) ([]*unstructured.Unstructured, error) {
	return decode("receivers/" + sink + ".yaml")
}

// ReceiverTypes returns the types for ReceiverOf.
func ReceiverTypes() ([]string, error) {
	names, err := fs.Glob(files, "receivers/*.yaml")
	for i, name := range names {
		names[i] = strings.TrimSuffix(path.Base(name), ".yaml")
	}
	return names, err
}

// Shares returns all sample shares and the objects they need, except the source Secrets.
func Shares() ([]*unstructured.Unstructured, error) { return decode("secrets/*.yaml") }

// Jupyters returns all sample notebooks, without a namespace and without the objects that
// they refer to.
func Jupyters() ([]*unstructured.Unstructured, error) { return decode("jupyter/*.yaml") }

// AppServices returns all sample apps, without a namespace and without the objects that
// they refer to.
func AppServices() ([]*unstructured.Unstructured, error) { return decode("appservice/*.yaml") }

func decode(pattern string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		decoded, err := decodeFile(name)
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

func decodeFile(name string) ([]*unstructured.Unstructured, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return config.Decode(f)
}
