package operator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// receivers identifies receivers. A receiver that was deleted and created again has the same
// key and another UID.
type knownReceivers struct {
	namespaces
	// started is when this replica began to lead.
	started time.Time
}

// start is called before the first Event is read.
func (r *knownReceivers) start(now time.Time) { r.started = now.Truncate(time.Second) }

// identify returns the ID of the receiver with a key, or "" if there is none.
// Occurrences before since belong to a former receiver of that name: while no operator ran,
// it could have been deleted and created again. Times of creation are in seconds. The former
// AlarmReceiver can have been another tenant's, so that the rest of its second is left out too.
func (r *knownReceivers) identify(key string) (id string, since time.Time) {
	object, err := get(context.Background(), r.cache, key, client.UnsafeDisableDeepCopy) // in memory
	if err != nil {
		return "", time.Time{}
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
func (r *knownReceivers) repeats(id string) bool { return r.is(id, receiver.Repeats) }

// acknowledges reports whether the receiver with an ID shows who acknowledged a group.
func (r *knownReceivers) acknowledges(id string) bool { return r.is(id, receiver.Acknowledges) }

// is reports whether the receiver with an ID exists and has a property.
func (r *knownReceivers) is(id string, property func(receiver.Object) bool) bool {
	object, err := get(context.Background(), r.cache, alarm.ReceiverKey(id), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false
	}
	existing, ok := object.(receiver.Object)
	return ok && property(existing)
}

// namespaceLabels returns the labels by which the receiver with an ID chooses a channel.
func (r *knownReceivers) namespaceLabels(id string) []string {
	object, err := get(context.Background(), r.cache, alarm.ReceiverKey(id), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}
	existing, ok := object.(receiver.Object)
	if !ok {
		return nil
	}
	return receiver.NamespaceLabels(existing)
}

// orphaned reports whether the receiver with an ID does not exist any more. It is false if that
// cannot be read. The cache can be older than the outbox, so only the API server's answer counts.
func (r *knownReceivers) orphaned(id string) bool {
	receiver, uid := alarm.SplitReceiver(id)
	if cached, err := get(context.Background(), r.cache, receiver, client.UnsafeDisableDeepCopy); err == nil && string(cached.GetUID()) == uid {
		return false
	}
	is, err := r.isReceiver(receiver, uid)
	return err == nil && !is
}

// isReceiver reports whether the receiver with a key has this UID, as the API server says.
func (r *knownReceivers) isReceiver(receiver, uid string) (bool, error) {
	if err, ok := r.failing.Get(""); ok {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	object, err := get(ctx, r.live, receiver)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if enrich.Classify(err) != "" {
		r.failing.Add("", err) // others are not read for a moment
	}
	return err == nil && string(object.GetUID()) == uid, err
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
