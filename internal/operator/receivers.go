package operator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
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

// receiver returns the receiver with a key, or false if there is none.
// Occurrences before Since belong to a former receiver of that name: while no operator ran,
// it could have been deleted and created again. Times of creation are in seconds. The former
// AlarmReceiver can have been another tenant's, so that the rest of its second is left out too.
func (r *knownReceivers) receiver(key string) (pipeline.Receiver, bool) {
	object, err := get(context.Background(), r.cache, key, client.UnsafeDisableDeepCopy) // in memory
	if err != nil {
		return pipeline.Receiver{}, false
	}
	since := object.GetCreationTimestamp().Time
	if _, ofTenant := object.(*v1alpha1.AlarmReceiver); ofTenant {
		since = since.Add(time.Second)
	}
	if since.After(r.started) {
		since = r.started
	}
	return pipeline.Receiver{
		ID: alarm.ReceiverID(key, string(object.GetUID())), Since: since,
		Repeats: receiver.Repeats(object), Acknowledges: receiver.Acknowledges(object), NamespaceLabels: receiver.NamespaceLabels(object),
	}, true
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
func get(ctx context.Context, from client.Reader, id string, options ...client.GetOption) (receiver.Object, error) {
	key, err := kube.ParseKey(id)
	if err != nil {
		return nil, err
	}
	var object receiver.Object = &v1alpha1.ClusterAlarmReceiver{}
	if key.Namespace != "" {
		object = &v1alpha1.AlarmReceiver{}
	}
	return object, from.Get(ctx, key.NamespacedName(), object, options...)
}
