package rehearse

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	engine "github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/alarm"
)

// Manifest is an Alarm or a ClusterAlarm as it was read from a file.
type Manifest struct {
	Kind   string
	Object alarm.Object
}

// Read returns the alarms in a file of YAML or JSON, and what else is in it, by kind and
// name. Fields that there are not are refused. All that is wrong is in the error.
func Read(in io.Reader) (alarms []Manifest, others []string, err error) {
	r := reader{decoder: json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{Yaml: true, Strict: true})}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if err := r.document(document); err != nil {
			r.errs = append(r.errs, fmt.Errorf("document %d: %w", n, err))
		}
	}
	if len(r.alarms) == 0 && len(r.errs) == 0 {
		return nil, nil, errors.New("there is no Alarm and no ClusterAlarm in it")
	}
	return r.alarms, r.others, errors.Join(r.errs...)
}

type reader struct {
	decoder *json.Serializer
	alarms  []Manifest
	others  []string
	errs    []error
}

func (r *reader) document(document []byte) error {
	if len(bytes.TrimSpace(document)) == 0 || onlyComments(document) {
		return nil
	}
	var meta metav1.PartialObjectMetadata
	if _, _, err := r.decoder.Decode(document, nil, &meta); err != nil && !runtime.IsStrictDecodingError(err) {
		return err
	}
	switch {
	case meta.APIVersion == "v1" && meta.Kind == "List":
		return r.list(document)
	case meta.GroupVersionKind().Group != v1alpha1.SchemeGroupVersion.Group:
		return r.other(&meta)
	}
	switch meta.Kind {
	case engine.KindAlarm:
		return r.alarm(document, &meta, &v1alpha1.Alarm{})
	case engine.KindClusterAlarm:
		return r.alarm(document, &meta, &v1alpha1.ClusterAlarm{})
	}
	return r.other(&meta)
}

func onlyComments(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

func (r *reader) list(document []byte) error {
	var list corev1.List
	if _, _, err := r.decoder.Decode(document, nil, &list); err != nil && !runtime.IsStrictDecodingError(err) {
		return err
	}
	for i := range list.Items {
		if err := r.document(list.Items[i].Raw); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

func (r *reader) other(meta *metav1.PartialObjectMetadata) error {
	if meta.Kind == "" {
		return errors.New("it has no kind: an alarm begins with apiVersion and kind")
	}
	r.others = append(r.others, meta.Kind+" "+meta.Name)
	return nil
}

// alarm reads an alarm into its type.
func (r *reader) alarm(document []byte, meta *metav1.PartialObjectMetadata, object alarm.Object) error {
	name := meta.Kind + " " + cmp.Or(meta.Name, "without a name")
	if version := v1alpha1.SchemeGroupVersion.String(); meta.APIVersion != version {
		return fmt.Errorf("%s: there is no apiVersion %q; write %s", name, meta.APIVersion, version)
	}
	_, _, err := r.decoder.Decode(document, nil, object)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", name, e))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if meta.Name == "" {
		return fmt.Errorf("%s: give it a metadata.name", meta.Kind)
	}
	r.alarms = append(r.alarms, Manifest{Kind: meta.Kind, Object: object})
	return nil
}
