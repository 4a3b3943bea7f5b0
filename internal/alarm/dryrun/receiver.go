package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	controlleralarm "github.com/bongsu-io/bongsu/internal/controller/alarm"
	"github.com/bongsu-io/bongsu/internal/controller/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// kindOf is the kind of a receiver that an alarm names, also if it was left out.
func kindOf(ref v1alpha1.ReceiverReference) string {
	if ref.Kind == "" {
		return v1alpha1.KindAlarmReceiver
	}
	return ref.Kind
}

// Receiver finds out which one is meant by NAME or KIND/NAME: by a name alone, the one
// that the alarm names, or else one of the kind that is usual for it.
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
		return key, fmt.Errorf("%q is no receiver: give NAME, AlarmReceiver/NAME or ClusterAlarmReceiver/NAME", text)
	case key.Kind == v1alpha1.KindAlarmReceiver && a.Kind == alarm.KindClusterAlarm:
		return key, fmt.Errorf("a ClusterAlarm cannot use an AlarmReceiver: name a ClusterAlarmReceiver")
	case key.Kind == v1alpha1.KindAlarmReceiver:
		key.Namespace = a.ID().Namespace
	}
	return key, nil
}

func (a *Alarm) usualKind(name string) string {
	refs := a.Object.ReceiverReferences()
	named := slices.IndexFunc(refs, func(ref v1alpha1.ReceiverReference) bool { return ref.Name == name })
	switch {
	case a.Kind == alarm.KindClusterAlarm:
		return v1alpha1.KindClusterAlarmReceiver
	case named >= 0:
		return kindOf(refs[named])
	default:
		return v1alpha1.KindAlarmReceiver
	}
}

// receiver reads a receiver, and refuses one that does not let the alarm use it.
func (s *Environment) receiver(ctx context.Context, a *Alarm, key kube.Key) (receiver.Object, error) {
	var object receiver.Object = &v1alpha1.AlarmReceiver{}
	if key.Kind == v1alpha1.KindClusterAlarmReceiver {
		object = &v1alpha1.ClusterAlarmReceiver{}
	}
	err := s.Client.Get(ctx, key.NamespacedName(), object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s does not exist: create it, or name another with --to", called(key))
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read %s: ask for the right to get it, or send to another: %w", called(key), err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", called(key), err)
	}
	cluster, ofCluster := object.(*v1alpha1.ClusterAlarmReceiver)
	if !ofCluster || a.ID().Namespace == "" {
		return object, nil
	}
	namespace := metadataOf("Namespace")
	if err := s.Client.Get(ctx, client.ObjectKey{Name: a.ID().Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("read the labels of namespace %s, by which %s may allow it: %w", a.ID().Namespace, called(key), err)
	}
	if !controlleralarm.Allows(cluster, namespace.Labels) {
		return nil, fmt.Errorf("%s", controlleralarm.NotAllowed(key, a.ID().Namespace).Message)
	}
	return object, nil
}

// called is what users call a receiver.
func called(key kube.Key) string {
	if key.Namespace == "" {
		return key.Kind + " " + key.Name
	}
	return key.Kind + " " + key.Namespace + "/" + key.Name
}

// Receivers are those that may be sent to, of a namespace and of the cluster, as
// KIND/NAME: as far as they can be read.
func (s *Environment) Receivers(ctx context.Context, namespace string) []string {
	var names []string
	var own v1alpha1.AlarmReceiverList
	if s.Client.List(ctx, &own, client.InNamespace(namespace)) == nil {
		for i := range own.Items {
			names = append(names, v1alpha1.KindAlarmReceiver+"/"+own.Items[i].Name)
		}
	}
	var cluster v1alpha1.ClusterAlarmReceiverList
	if s.Client.List(ctx, &cluster) == nil {
		for i := range cluster.Items {
			names = append(names, v1alpha1.KindClusterAlarmReceiver+"/"+cluster.Items[i].Name)
		}
	}
	return names
}
