package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// client requests the Events of all namespaces.
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

// request does not retry. The reader does, because it can also list instead.
func (c *client) request(opts *metav1.ListOptions) *rest.Request {
	return c.rest.Get().Resource("events").VersionedParams(opts, scheme.ParameterCodec).MaxRetries(0)
}

func (c *client) page(ctx context.Context, opts *metav1.ListOptions) (*eventsv1.EventList, error) {
	list := &eventsv1.EventList{}
	return list, c.request(opts).Timeout(listTimeout).Do(ctx).Into(list)
}

// list calls each with every Event, one page in memory, and returns the position of the
// list.
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

// current returns the newest position of the API server.
func (c *client) current(ctx context.Context) (uint64, error) {
	page, err := c.page(ctx, &metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return parsePosition(page.ResourceVersion)
}

// resumeAt returns the options of a watch that begins after a position.
func resumeAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: formatPosition(position)}
}

// streamingList returns the options of a watch that begins with all existing Events.
func streamingList() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// watch opens a watch and returns its bytes. The watch ends after about an hour at most,
// even if the API server does not end it.
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

// maxFrame limits one entry of a watch. The limit of etcd for a request, 1.5 MiB, is far
// below.
const maxFrame = 16 << 20

// errMalformed reports an entry that cannot be decoded. The stream can still be read.
var errMalformed = errors.New("malformed watch entry")

var (
	errFrameTooLarge = errors.New("watch entry is larger than 16 MiB")
	errNoEnvelope    = errors.New("object has no protobuf envelope")
)

// protobufMagic is the prefix of every object that the API server encodes as protobuf.
var protobufMagic = []byte("k8s\x00")

// decoder reads a protobuf watch, like the decoder of client-go. It uses the same memory
// for every entry and looks up no kinds.
type decoder struct {
	in       *bufio.Reader
	frame    []byte
	envelope metav1.WatchEvent
	object   runtime.Unknown
	event    eventsv1.Event
	status   metav1.Status
}

func newDecoder(r io.Reader) *decoder {
	return &decoder{in: bufio.NewReaderSize(r, 64<<10)}
}

// next reads the next entry into event, or into status if the entry is an error.
func (d *decoder) next() (watch.EventType, error) {
	if err := d.readFrame(); err != nil {
		return "", err
	}
	if err := d.decodeFrame(); err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	return watch.EventType(d.envelope.Type), nil
}

// readFrame reads a length (4 bytes, big-endian) and that number of bytes.
func (d *decoder) readFrame() error {
	var header [4]byte
	if _, err := io.ReadFull(d.in, header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size > maxFrame {
		return errFrameTooLarge
	}
	if uint32(cap(d.frame)) < size {
		d.frame = make([]byte, size)
	}
	d.frame = d.frame[:size]
	_, err := io.ReadFull(d.in, d.frame)
	return err
}

func (d *decoder) decodeFrame() error {
	d.envelope = metav1.WatchEvent{Object: runtime.RawExtension{Raw: d.envelope.Object.Raw[:0]}}
	if err := d.envelope.Unmarshal(d.frame); err != nil {
		return err
	}
	object, ok := bytes.CutPrefix(d.envelope.Object.Raw, protobufMagic)
	if !ok {
		return errNoEnvelope
	}
	d.object = runtime.Unknown{Raw: d.object.Raw[:0]}
	if err := d.object.Unmarshal(object); err != nil {
		return err
	}
	return d.decodeObject()
}

func (d *decoder) decodeObject() error {
	switch watch.EventType(d.envelope.Type) {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		d.event.Reset()
		return d.event.Unmarshal(d.object.Raw)
	case watch.Error:
		d.status.Reset()
		return d.status.Unmarshal(d.object.Raw)
	default:
		return fmt.Errorf("unknown type %q", d.envelope.Type)
	}
}
