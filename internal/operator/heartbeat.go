package operator

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// heartbeat emits an Event at each multiple of an interval. An alarm for it proves to an external
// service that Events reach receivers. Two replicas emit the same Event for the same multiple.
type heartbeat struct {
	recorder *events.Recorder
	// namespace is that of the checkpoint, which the Event is about.
	namespace string
	every     time.Duration
	clock     clock.WithTicker
	log       logr.Logger
}

// retryHeartbeat is the pause after a heartbeat that could not be emitted.
const retryHeartbeat = 10 * time.Second

// run emits until ctx ends.
func (h *heartbeat) run(ctx context.Context) error {
	ctx = logr.NewContext(ctx, h.log)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: checkpoint.Name}}
	for {
		due := h.clock.Now().Truncate(h.every)
		err := h.recorder.Emit(ctx, object, events.Event{
			Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHeartbeat, Action: "Lead", Note: "the operator works", Since: due,
		})
		pause := due.Add(h.every).Sub(h.clock.Now())
		if err != nil && ctx.Err() == nil {
			h.log.Error(err, "the heartbeat could not be emitted")
			pause = min(pause, retryHeartbeat)
		}
		timer := h.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}
