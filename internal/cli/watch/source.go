package watch

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// newSource returns what the informer lists and watches with. The link hears how
// each request went.
func newSource(config Config, link *link) *cache.ListWatch {
	objects := config.Client.Resource(config.Target.Type.Resource).Namespace(config.Target.Namespace)
	selector := config.Target.Selector.String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			all, err := objects.List(ctx, o)
			link.report(ctx, err)
			return all, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			stream, err := objects.Watch(ctx, o)
			link.report(ctx, cmp.Or(err, errorOf(stream)))
			return stream, err
		},
	}
}

// errNoAnswer is the failure of a connection that ends before there is an answer.
// client-go makes an empty stream of it.
var errNoAnswer = errors.New("the server does not answer")

var emptyStream = reflect.TypeOf(apiwatch.NewEmptyWatch())

func errorOf(stream apiwatch.Interface) error {
	if reflect.TypeOf(stream) == emptyStream {
		return errNoAnswer
	}
	return nil
}
