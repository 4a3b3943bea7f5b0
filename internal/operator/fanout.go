package operator

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// fanOut tells the controllers of some kinds that an object changed.
type fanOut map[string]chan event.GenericEvent

func newFanOut(kinds ...string) fanOut {
	f := fanOut{}
	for _, kind := range kinds {
		f[kind] = make(chan event.GenericEvent, 1024)
	}
	return f
}

// one tells the controller of the kind that the key names.
func (f fanOut) one(ctx context.Context, subject string) {
	key, err := kube.ParseKey(subject)
	if err != nil {
		return // no subject of ours
	}
	if channel, ok := f[key.Kind]; ok {
		tell(ctx, channel, key.NamespacedName())
	}
}

// all tells every controller.
func (f fanOut) all(ctx context.Context, name types.NamespacedName) {
	for _, channel := range f {
		tell(ctx, channel, name)
	}
}

// tell waits for a busy controller, but not for one that has ended.
func tell(ctx context.Context, channel chan<- event.GenericEvent, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case channel <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
