package dryrun

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	internalalarm "github.com/bongsu-io/bongsu/internal/alarm"
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
	var r reader
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for r.at = 1; ; r.at++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if err := r.yaml(document); err != nil {
			r.refuse("", err)
		}
	}
	if len(r.alarms) == 0 && len(r.errs) == 0 {
		return nil, nil, errors.New("there is no Alarm and no ClusterAlarm in it")
	}
	return r.alarms, r.others, errors.Join(r.errs...)
}

type reader struct {
	// at says where in the file it is.
	at     int
	alarms []Manifest
	others []string
	errs   []error
}

func (r *reader) refuse(name string, err error) {
	r.errs = append(r.errs, fmt.Errorf("document %d: %s%w", r.at, name, err))
}

func (r *reader) yaml(document []byte) error {
	object, err := yaml.YAMLToJSONStrict(document)
	if err != nil || bytes.Equal(object, []byte("null")) { // nothing but comments
		return err
	}
	return r.object(object)
}

// object reads one of any kind, in JSON.
func (r *reader) object(object []byte) error {
	var meta metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(object, &meta); err != nil {
		return err
	}
	switch {
	case meta.APIVersion == "v1" && meta.Kind == "List":
		return r.list(object)
	case meta.GroupVersionKind().Group != v1alpha1.SchemeGroupVersion.Group:
		return r.other(&meta)
	}
	switch meta.Kind {
	case internalalarm.KindAlarm:
		return r.alarm(object, &meta, &v1alpha1.Alarm{})
	case internalalarm.KindClusterAlarm:
		return r.alarm(object, &meta, &v1alpha1.ClusterAlarm{})
	}
	return r.other(&meta)
}

func (r *reader) list(object []byte) error {
	var list corev1.List
	if err := json.UnmarshalCaseSensitivePreserveInts(object, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := r.object(list.Items[i].Raw); err != nil {
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
func (r *reader) alarm(text []byte, meta *metav1.PartialObjectMetadata, object alarm.Object) error {
	name := meta.Kind + " " + cmp.Or(meta.Name, "without a name")
	if version := v1alpha1.SchemeGroupVersion.String(); meta.APIVersion != version {
		return fmt.Errorf("%s: there is no apiVersion %q; write %s", name, meta.APIVersion, version)
	}
	wrong, err := json.UnmarshalStrict(text, object)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range wrong {
		r.refuse(name+": ", e)
	}
	if meta.Name == "" {
		return fmt.Errorf("%s: give it a metadata.name", meta.Kind)
	}
	r.alarms = append(r.alarms, Manifest{Kind: meta.Kind, Object: object})
	return nil
}
