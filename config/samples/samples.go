// Package samples embeds the sample alarms, a file each; the sample receivers, of
// which one is to be applied: every alarm sends to the same name; and the sample
// shares of Secrets, notebooks and apps.
package samples

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
)

//go:embed *.yaml receivers/*.yaml secrets/*.yaml jupyter/*.yaml appservice/*.yaml
var files embed.FS

// Receiver is the name of the ClusterAlarmReceiver that the samples send to.
const Receiver = "ops"

// Alarms returns all sample alarms, with what they need but Receiver.
func Alarms() ([]*unstructured.Unstructured, error) { return decode("*.yaml") }

// ReceiverOf returns the sample receiver of a type, for example log, slack or webhook.
func ReceiverOf(sink string) ([]*unstructured.Unstructured, error) {
	return decode("receivers/" + sink + ".yaml")
}

// Shares returns all sample shares of Secrets, with what they need but the Secrets.
func Shares() ([]*unstructured.Unstructured, error) { return decode("secrets/*.yaml") }

// Jupyters returns all sample notebooks, in no namespace, without what they refer to.
func Jupyters() ([]*unstructured.Unstructured, error) { return decode("jupyter/*.yaml") }

// AppServices returns all sample apps, in no namespace, without what they refer to.
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
