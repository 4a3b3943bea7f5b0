package source

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// client asks for the Events of all namespaces.
type client struct {
	rest rest.Interface
}

func newClient(cfg *rest.Config) (*client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &eventsv1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf
	cfg.QPS = -1
	cfg.Timeout = 0
	r, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &client{rest: r}, nil
}

// request leaves retries to the feed, which knows what else to do meanwhile.
func (c *client) request(opts *metav1.ListOptions) *rest.Request {
	return c.rest.Get().Resource("events").VersionedParams(opts, scheme.ParameterCodec).MaxRetries(0)
}

func (c *client) page(ctx context.Context, opts *metav1.ListOptions) (*eventsv1.EventList, error) {
	list := &eventsv1.EventList{}
	return list, c.request(opts).Timeout(listTimeout).Do(ctx).Into(list)
}

// list hands every Event to each, one page in memory, and returns the position
// at which all of them stood.
func (c *client) list(ctx context.Context, opts metav1.ListOptions, each func(*eventsv1.Event) error) (uint64, error) {
	opts.Limit = pageSize
	for {
		page, err := c.page(ctx, &opts)
		if err != nil {
			return 0, err
		}
		for i := range page.Items {
			if err := each(&page.Items[i]); err != nil {
				return 0, err
			}
		}
		if page.Continue == "" {
			return parsePosition(page.ResourceVersion)
		}
		opts = metav1.ListOptions{Limit: pageSize, Continue: page.Continue}
	}
}

// current returns the API server's newest position.
func (c *client) current(ctx context.Context) (uint64, error) {
	page, err := c.page(ctx, &metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return parsePosition(page.ResourceVersion)
}

// resumeAt are the options of a watch of what comes after position.
func resumeAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: formatPosition(position)}
}

// streamingList are the options of a watch that begins with all there is.
func streamingList() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// watch opens a watch and returns its bytes. It ends on its own after an hour at
// the latest, also if the API server is no longer there to end it.
func (c *client) watch(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	lasts := watchTimeout + rand.N(watchTimeout)
	opts.Watch = true
	opts.AllowWatchBookmarks = true
	opts.TimeoutSeconds = new(int64(lasts / time.Second))
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	body, err := c.request(&opts).Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &watchBody{ReadCloser: body, cancel: cancel}, nil
}

// watchBody ends the request when it is closed.
type watchBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *watchBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
