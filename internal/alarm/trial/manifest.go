package trial

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
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
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

// File is what a file with alarms contains.
type File struct {
	Alarms    []Manifest
	Receivers []Receiver
	// Secrets contain their stringData in data too, as in the API server.
	Secrets []corev1.Secret
	// Others are KIND NAME of all other objects.
	Others []string
}

// Receiver is an AlarmReceiver or a ClusterAlarmReceiver that was read from a file.
type Receiver struct {
	Kind   string
	Object receiver.Object
}

func (r *Receiver) key() kube.Key {
	return kube.Key{Kind: r.Kind, Namespace: r.Object.GetNamespace(), Name: r.Object.GetName()}
}

// Read reads a file of YAML or JSON. Unknown fields of alarms and receivers are errors. The error
// contains all problems of the file.
func Read(in io.Reader) (File, error) {
	var r reader
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for r.at = 1; ; r.at++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return File{}, err
		}
		if err := r.yaml(document); err != nil {
			r.refuse("", err)
		}
	}
	if len(r.file.Alarms) == 0 && len(r.errs) == 0 {
		return File{}, errors.New("there is no Alarm and no ClusterAlarm in it")
	}
	return r.file, errors.Join(r.errs...)
}

type reader struct {
	// at is the number of the document in the file.
	at   int
	file File
	errs []error
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
		return typeError(object, &meta, err)
	}
	switch {
	case meta.APIVersion == "v1" && meta.Kind == "List":
		return r.list(object)
	case meta.APIVersion == "v1" && meta.Kind == "Secret":
		return r.secret(object)
	case meta.GroupVersionKind().Group != v1alpha1.SchemeGroupVersion.Group:
		return r.other(&meta)
	}
	switch meta.Kind {
	case alarm.KindAlarm:
		return r.alarm(object, &meta, &v1alpha1.Alarm{})
	case alarm.KindClusterAlarm:
		return r.alarm(object, &meta, &v1alpha1.ClusterAlarm{})
	case v1alpha1.KindAlarmReceiver:
		return r.receiver(object, &meta, &v1alpha1.AlarmReceiver{})
	case v1alpha1.KindClusterAlarmReceiver:
		return r.receiver(object, &meta, &v1alpha1.ClusterAlarmReceiver{})
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
	r.file.Others = append(r.file.Others, meta.Kind+" "+meta.Name)
	return nil
}

// secret reads a Secret. The decoder's errors name fields and no values.
func (r *reader) secret(text []byte) error {
	var secret corev1.Secret
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &secret); err != nil {
		r.refuse("Secret "+secret.Name+": ", typeError(text, &secret, err))
		return nil
	}
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	r.file.Secrets = append(r.file.Secrets, secret)
	return nil
}

func (r *reader) alarm(text []byte, meta *metav1.PartialObjectMetadata, object Object) error {
	err := r.strict(text, meta, object)
	if err == nil {
		r.file.Alarms = append(r.file.Alarms, Manifest{Kind: meta.Kind, Object: object})
	}
	return err
}

func (r *reader) receiver(text []byte, meta *metav1.PartialObjectMetadata, object receiver.Object) error {
	err := r.strict(text, meta, object)
	if err == nil {
		r.file.Receivers = append(r.file.Receivers, Receiver{Kind: meta.Kind, Object: object})
	}
	return err
}

// strict reads one of our objects.
func (r *reader) strict(text []byte, meta *metav1.PartialObjectMetadata, object client.Object) error {
	name := meta.Kind + " " + cmp.Or(meta.Name, "without a name")
	if version := v1alpha1.SchemeGroupVersion.String(); meta.APIVersion != version {
		return fmt.Errorf("%s: there is no apiVersion %q; write %s", name, meta.APIVersion, version)
	}
	wrong, err := json.UnmarshalStrict(text, object)
	if err != nil {
		return fmt.Errorf("%s: %w", name, typeError(text, object, err))
	}
	for _, e := range wrong {
		r.refuse(name+": ", e)
	}
	if meta.Name == "" {
		return fmt.Errorf("%s: give it a metadata.name", meta.Kind)
	}
	return nil
}

// Alarm is a compiled Manifest.
type Alarm struct {
	Manifest
	compiled *match.Alarm
}

// ID returns the kind, namespace and name of the alarm.
func (a *Alarm) ID() kube.Key { return a.compiled.ID }

// Place sets the namespace of Alarms, AlarmReceivers and Secrets that have none. If must is true,
// one of another namespace is an error, unless it is a Secret, which a ClusterAlarmReceiver can use.
func (f *File) Place(namespace string, must bool) error {
	for _, m := range f.Alarms {
		if err := place(m.Kind, m.Object, namespace, must); err != nil {
			return err
		}
	}
	for i := range f.Secrets {
		_ = place("Secret", &f.Secrets[i], namespace, false)
	}
	for _, r := range f.Receivers {
		if err := place(r.Kind, r.Object, namespace, must); err != nil {
			return err
		}
	}
	return nil
}

func place(kind string, object client.Object, namespace string, must bool) error {
	if kind == alarm.KindClusterAlarm || kind == v1alpha1.KindClusterAlarmReceiver {
		return nil
	}
	switch own := object.GetNamespace(); {
	case own == "":
		object.SetNamespace(namespace)
	case must && own != namespace:
		return fmt.Errorf("%s %s is of namespace %s: leave --namespace %s out, or metadata.namespace", kind, object.GetName(), own, namespace)
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
		def := match.NewDefinition(m.Kind, m.Object, []string{"trial"})
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
