package dryrun

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	client.Object
	match.Object
	ReceiverReferences() []v1alpha1.ReceiverReference
	ReceiverChoice() *v1alpha1.ReceiversFrom
}

// Manifest is an Alarm or a ClusterAlarm that was read from a file.
type Manifest struct {
	Kind   string
	Object Object
}

// Read reads a file of YAML or JSON. It returns the alarms, and KIND NAME of all other
// objects. Unknown fields are errors. The error contains all problems of the file.
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
	// at is the number of the document in the file.
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
	if err != nil || bytes.Equal(object, []byte("null")) { // only comments
		return err
	}
	return r.object(object)
}

// object reads an object of any kind, in JSON.
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
	case alarm.KindAlarm:
		return r.alarm(object, &meta, &v1alpha1.Alarm{})
	case alarm.KindClusterAlarm:
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

// alarm reads an alarm into object.
func (r *reader) alarm(text []byte, meta *metav1.PartialObjectMetadata, object Object) error {
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

// Alarm is a compiled Manifest.
type Alarm struct {
	Manifest
	compiled *match.Alarm
}

// ID returns the kind, namespace and name of the alarm.
func (a *Alarm) ID() alarm.ID { return a.compiled.ID }

// Place sets the namespace of Alarms that have none. If must is true, an Alarm of another
// namespace is an error.
func Place(manifests []Manifest, namespace string, must bool) error {
	for _, m := range manifests {
		if m.Kind != alarm.KindAlarm {
			continue
		}
		switch own := m.Object.GetNamespace(); {
		case own == "":
			m.Object.SetNamespace(namespace)
		case must && own != namespace:
			return fmt.Errorf("Alarm %s is of namespace %s: leave --namespace %s out, or metadata.namespace", m.Object.GetName(), own, namespace)
		}
	}
	return nil
}

// Compile compiles alarms as the operator does, without a cluster. The error contains all
// invalid alarms, and shows where each is wrong.
//
// The compiled alarms also match Events from before their creation, and match even if they
// are suspended.
func Compile(manifests []Manifest) ([]*Alarm, error) {
	compiler, err := match.NewCompiler()
	if err != nil {
		return nil, err
	}
	alarms := make([]*Alarm, 0, len(manifests))
	var errs []error
	for _, m := range manifests {
		def := match.NewDefinition(m.Kind, m.Object, []string{"dryrun"})
		def.CreatedAt, def.Spec.Suspend = time.Time{}, false
		compiled, err := compiler.Compile(def)
		if invalid, ok := errors.AsType[*match.CompileError](err); ok {
			err = errors.New(Point(invalid))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", m.Kind, m.Object.GetName(), err))
			continue
		}
		alarms = append(alarms, &Alarm{Manifest: m, compiled: compiled})
	}
	return alarms, errors.Join(errs...)
}
