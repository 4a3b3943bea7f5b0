package operator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	alarmreceiver "github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// receivers identifies receivers. A receiver that was deleted and created again has the same
// key and another UID.
type receivers struct {
	namespaces
	// started is when this replica began to lead.
	started time.Time
}

// start is called before the first Event is read.
func (r *receivers) start(now time.Time) { r.started = now.Truncate(time.Second) }

// identify returns the ID of the receiver with a key, which is the key itself if there is none.
// Occurrences before since belong to a former receiver of that name: while no operator ran,
// it could have been deleted and created again. Times of creation are in seconds. The former
// AlarmReceiver can have been another tenant's, so that the rest of its second is left out too.
func (r *receivers) identify(key string) (id string, since time.Time) {
	object, err := get(context.Background(), r.cache, key, client.UnsafeDisableDeepCopy) // in memory
	if err != nil {
		return key, time.Time{}
	}
	since = object.GetCreationTimestamp().Time
	if _, ofTenant := object.(*v1alpha1.AlarmReceiver); ofTenant {
		since = since.Add(time.Second)
	}
	if since.After(r.started) {
		since = r.started
	}
	return alarm.ReceiverID(key, string(object.GetUID())), since
}

// repeats reports whether the receiver with an ID must get the messages of open groups again.
func (r *receivers) repeats(id string) bool { return r.is(id, alarmreceiver.Repeats) }

// acknowledges reports whether the receiver with an ID shows who acknowledged a group.
func (r *receivers) acknowledges(id string) bool { return r.is(id, alarmreceiver.Acknowledges) }

// is reports whether the receiver with an ID exists and has a property.
func (r *receivers) is(id string, property func(alarmreceiver.Object) bool) bool {
	object, err := get(context.Background(), r.cache, alarm.ReceiverKey(id), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false
	}
	existing, ok := object.(alarmreceiver.Object)
	return ok && property(existing)
}

// namespaceLabels returns the labels by which the receiver with an ID chooses a channel.
func (r *receivers) namespaceLabels(id string) []string {
	object, err := get(context.Background(), r.cache, alarm.ReceiverKey(id), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}
	existing, ok := object.(alarmreceiver.Object)
	if !ok {
		return nil
	}
	return alarmreceiver.NamespaceLabels(existing)
}

// missing reports whether the receiver with an ID does not exist.
func (r *receivers) missing(id string) bool { return id == alarm.ReceiverKey(id) }

// orphaned reports whether a receiver does not exist any more, or if it never did, whether its
// namespace does not. It is false if that cannot be read. The cache can be older than the
// outbox, so only the API server's answer counts.
func (r *receivers) orphaned(id string) bool {
	receiver, uid := alarm.SplitReceiver(id)
	key, err := kube.ParseKey(receiver)
	if err != nil {
		return false
	}
	if uid == "" {
		if key.Namespace == "" {
			return false
		}
		_, err := r.get(key.Namespace)
		return apierrors.IsNotFound(err)
	}
	if cached, err := get(context.Background(), r.cache, receiver, client.UnsafeDisableDeepCopy); err == nil && string(cached.GetUID()) == uid {
		return false
	}
	if r.failing.Contains("") {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	object, err := get(ctx, r.live, receiver)
	if enrich.Classify(err) != "" {
		r.failing.Add("", err) // others are not read for a moment
	}
	return apierrors.IsNotFound(err) || err == nil && string(object.GetUID()) != uid
}

// get reads the receiver with a key.
func get(ctx context.Context, from client.Reader, receiver string, options ...client.GetOption) (client.Object, error) {
	key, err := kube.ParseKey(receiver)
	if err != nil {
		return nil, err
	}
	var object client.Object = &v1alpha1.ClusterAlarmReceiver{}
	if key.Namespace != "" {
		object = &v1alpha1.AlarmReceiver{}
	}
	return object, from.Get(ctx, key.NamespacedName(), object, options...)
}
