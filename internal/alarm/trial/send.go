package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Sent is a message that a receiver has accepted.
type Sent struct {
	// Receiver is the name of the receiver in messages.
	Receiver string
	Message  message.Message
	// Example is true if no Event matched: the message is about an example.
	Example bool
	// Notes say what is unknown, and why.
	Notes []string
}

// Send sends one message of the alarm to a receiver, marked as a test. The message is about
// the newest Event that matches, without threshold, group and mute. If none matches, it is
// about an example. The error contains the answer of the receiver, and no secret.
func (e *Environment) Send(ctx context.Context, a *Alarm, to kube.Key, sinks receiver.Sinks) (*Sent, error) {
	object, err := e.receiver(ctx, a, to, "name another with --to")
	if err != nil {
		return nil, err
	}
	sent := &Sent{Receiver: to.Display()}
	sinks.BodyFailed = func(_, text string) {
		sent.Notes = append(sent.Notes, "an expression of the receiver's body fails for this message: "+text)
	}
	built, err := receiver.Build(ctx, e.secrets(), sinks, to, object)
	_, invalid := errors.AsType[*receiver.ConfigError](err)
	switch {
	case invalid:
		return nil, fmt.Errorf("%s: %w", to.Display(), err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read a Secret that %s names: ask an administrator for permission to get it, or to send the test: %w", to.Display(), err)
	case err != nil:
		return nil, fmt.Errorf("read the Secrets that %s names: %w", to.Display(), err)
	}
	if err := e.compose(ctx, a, sent, receiver.NamespaceLabels(object)); err != nil {
		return nil, err
	}
	body, err := built.Notifier.Render(sent.Message)
	if err != nil {
		return nil, fmt.Errorf("render the message: %w", err)
	}
	if err := built.Notifier.Send(ctx, uuid.NewString(), body); err != nil {
		return nil, fmt.Errorf("%s did not accept the message: %w", to.Display(), withoutSecrets(err))
	}
	return sent, nil
}

// withoutSecrets returns errors of a notifier, whose texts contain no secrets. It replaces
// all other errors.
func withoutSecrets(err error) error {
	if failure, ok := errors.AsType[*notify.SendError](err); ok {
		return failure.OfTest()
	}
	return errors.New("it could not be sent")
}

// compose sets the message of sent, with these labels of its namespace.
func (e *Environment) compose(ctx context.Context, a *Alarm, sent *Sent, labels []string) error {
	reader := newClusterReader(e.Client)
	enricher := reader.enricher(ctx, e)
	found, err := e.occurrences(ctx, a)
	if apierrors.IsForbidden(err) {
		sent.Notes = append(sent.Notes, err.Error())
		found, err = &seen{}, nil
	}
	if err != nil {
		return err
	}
	notes, err := e.addRoute(ctx, a, map[string]receiver.Object{})
	if err != nil {
		return err
	}
	sent.Notes = append(sent.Notes, notes...)
	result, err := e.run(ctx, a, found.occurrences, reader, enricher, labels...)
	if err != nil {
		return err
	}
	for _, evaluation := range slices.Backward(result.Evaluations) {
		if evaluation.Outcome == match.Matched {
			sent.Message = evaluation.Alone.AsTest()
			if len(evaluation.Chosen) > 0 {
				sent.Notes = append(sent.Notes, "for this Event, spec.receiversFrom chooses "+strings.Join(displayed(evaluation.Chosen...), ", "))
			}
			return nil
		}
	}
	m, err := e.example(ctx, a, enricher)
	if err != nil {
		sent.Notes = append(sent.Notes, "an expression fails for the example: "+err.Error())
	}
	sent.Message, sent.Example = m.AsTest(), true
	return nil
}

func (e *Environment) example(ctx context.Context, a *Alarm, enricher pipeline.Enricher) (message.Message, error) {
	occ, known := a.compiled.Example(e.Now)
	known.Cluster = enricher.Context(ctx, &alarm.Event{}).Cluster
	return a.compiled.Render(ctx, &occ, &known)
}

// receiverKeys returns the keys of the receivers in the alarm.
func (a *Alarm) receiverKeys() []kube.Key {
	var keys []kube.Key
	for _, ref := range a.Object.ReceiverReferences() {
		key := kube.Key{Kind: cmp.Or(ref.Kind, v1alpha1.KindAlarmReceiver), Name: ref.Name}
		if a.Kind == alarm.KindClusterAlarm {
			key.Kind = v1alpha1.KindClusterAlarmReceiver
		}
		if key.Kind == v1alpha1.KindAlarmReceiver {
			key.Namespace = a.ID().Namespace
		}
		keys = append(keys, key)
	}
	return keys
}

// Receiver returns the key of the receiver NAME or KIND/NAME. Without a kind, the kind is
// that of the receiver with this name in the alarm. If the alarm does not name it, the kind
// is ClusterAlarmReceiver for a ClusterAlarm and AlarmReceiver for an Alarm.
func (a *Alarm) Receiver(text string) (kube.Key, error) {
	kind, name, both := strings.Cut(text, "/")
	if !both {
		kind, name = a.usualKind(text), text
	}
	key := kube.Key{Name: name}
	for _, known := range []string{v1alpha1.KindAlarmReceiver, v1alpha1.KindClusterAlarmReceiver} {
		if strings.EqualFold(strings.TrimSuffix(kind, "s"), known) {
			key.Kind = known
		}
	}
	switch {
	case key.Kind == "" || name == "" || strings.Contains(name, "/"):
		return key, fmt.Errorf("%q is no receiver: use NAME, AlarmReceiver/NAME or ClusterAlarmReceiver/NAME", text)
	case key.Kind == v1alpha1.KindAlarmReceiver && a.Kind == alarm.KindClusterAlarm:
		return key, errors.New("a ClusterAlarm cannot use an AlarmReceiver: name a ClusterAlarmReceiver")
	case key.Kind == v1alpha1.KindAlarmReceiver:
		key.Namespace = a.ID().Namespace
	}
	return key, nil
}

func (a *Alarm) usualKind(name string) string {
	keys := a.receiverKeys()
	named := slices.IndexFunc(keys, func(key kube.Key) bool { return key.Name == name })
	switch {
	case named >= 0:
		return keys[named].Kind
	case a.Kind == alarm.KindClusterAlarm:
		return v1alpha1.KindClusterAlarmReceiver
	default:
		return v1alpha1.KindAlarmReceiver
	}
}

// receiver reads a receiver. A receiver that the alarm may not use is an error. instead says
// what else the user can do if there is none.
func (e *Environment) receiver(ctx context.Context, a *Alarm, key kube.Key, instead string) (receiver.Object, error) {
	object, err := e.read(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, missingError(fmt.Sprintf("%s does not exist: create it, or %s", key.Display(), instead))
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read %s: ask an administrator for permission to get it, or %s: %w", key.Display(), instead, err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key.Display(), err)
	}
	cluster, ofCluster := object.(*v1alpha1.ClusterAlarmReceiver)
	if !ofCluster || a.ID().Namespace == "" {
		return object, nil
	}
	namespace := metadataOf("Namespace")
	if err := e.Client.Get(ctx, client.ObjectKey{Name: a.ID().Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("read the labels of namespace %s, which decide whether %s allows it: %w", a.ID().Namespace, key.Display(), err)
	}
	if !receiver.Allows(cluster, namespace.Labels) {
		return nil, receiver.NotAllowed(key.Name, a.ID().Namespace)
	}
	return object, nil
}

// read reads a receiver from the file, or from the cluster.
func (e *Environment) read(ctx context.Context, key kube.Key) (receiver.Object, error) {
	if object := e.inFile(key); object != nil {
		stored, _, err := e.review(ctx, object, key)
		if stored != nil {
			object = stored.(receiver.Object)
		}
		return object, err
	}
	var object receiver.Object = &v1alpha1.AlarmReceiver{}
	if key.Kind == v1alpha1.KindClusterAlarmReceiver {
		object = &v1alpha1.ClusterAlarmReceiver{}
	}
	return object, e.Client.Get(ctx, key.NamespacedName(), object)
}

// Receivers returns KIND/NAME of the receivers of a namespace and of the cluster. It leaves
// out those that cannot be listed.
func (e *Environment) Receivers(ctx context.Context, namespace string) []string {
	var names []string
	var own v1alpha1.AlarmReceiverList
	if e.Client.List(ctx, &own, client.InNamespace(namespace)) == nil {
		for i := range own.Items {
			names = append(names, v1alpha1.KindAlarmReceiver+"/"+own.Items[i].Name)
		}
	}
	var cluster v1alpha1.ClusterAlarmReceiverList
	if e.Client.List(ctx, &cluster) == nil {
		for i := range cluster.Items {
			names = append(names, v1alpha1.KindClusterAlarmReceiver+"/"+cluster.Items[i].Name)
		}
	}
	return names
}
