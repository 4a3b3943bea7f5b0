package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// client requests the Events of all namespaces.
type client struct {
	rest rest.Interface
	// connections belong to this client alone, so that it can close them.
	connections *connrotation.Dialer
	// lasts is watchTimeout, and idleTimeout and pageSize are the constants of apiwatch, except in
	// tests.
	lasts, idleTimeout time.Duration
	pageSize           int64
}

// watchTimeout is the minimum duration of a watch. The API server sends no bookmarks for Events,
// because it does not cache them. The end of a watch that brought nothing for a while is therefore
// the only sign that no Event is unread. Two watches in a row, of 50 seconds at most, and twice
// ClockDifference are less than the two minutes in docs/guarantees.md.
const watchTimeout = 25 * time.Second

func newClient(cfg *rest.Config) (*client, error) {
	cfg, connections := apiwatch.Config(cfg)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &eventsv1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf
	cfg.Wrap(kube.LimitResponses(kube.NoLimit)) // page lowers it
	r, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &client{rest: r, connections: connections, lasts: watchTimeout, idleTimeout: apiwatch.IdleTimeout, pageSize: apiwatch.PageSize}, nil
}

// request does not retry. The reader does, because it can also list instead.
func (c *client) request(opts *metav1.ListOptions) *rest.Request {
	return c.rest.Get().Resource("events").VersionedParams(opts, scheme.ParameterCodec).MaxRetries(0)
}

// maxPage limits a page of a list, in bytes. A tenant can create Events that are almost as large
// as a request.
const maxPage = 16 << 20

func (c *client) page(ctx context.Context, opts *metav1.ListOptions) (*eventsv1.EventList, error) {
	list := &eventsv1.EventList{}
	err := c.request(opts).Timeout(apiwatch.ListTimeout).Do(kube.WithResponseLimit(ctx, maxPage)).Into(list)
	if errors.Is(err, context.DeadlineExceeded) {
		c.connections.CloseAll()
	}
	return list, err
}

// list calls each with every Event, one page in memory, and with the position of the list,
// which is that of its first page. It returns this position. If Events are large, pages are smaller.
//
// If the API server compacts this position before the list ends, the list continues at
// newer positions, MaxRenewals times at most. It then contains each Event that existed all
// the time. Events that were created meanwhile can be missing. A list at an exact position
// fails instead.
func (c *client) list(ctx context.Context, opts metav1.ListOptions, each func(e *eventsv1.Event, listed uint64) error) (listed uint64, err error) {
	err = c.pages(ctx, opts, func(page *eventsv1.EventList) error {
		if listed == 0 {
			if listed, err = apiwatch.ParsePosition(page.ResourceVersion); err != nil {
				return err
			}
		}
		for i := range page.Items {
			if err := each(&page.Items[i], listed); err != nil {
				return err
			}
		}
		return nil
	})
	return listed, err
}

func (c *client) pages(ctx context.Context, opts metav1.ListOptions, each func(*eventsv1.EventList) error) error {
	renewals := apiwatch.MaxRenewals
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		renewals = 0
	}
	for opts.Limit = c.pageSize; ; {
		page, err := c.page(ctx, &opts)
		if errors.Is(err, kube.ErrTooLarge) && opts.Limit > 1 {
			opts.Limit = max(opts.Limit/8, 1)
			continue
		}
		if token := apiwatch.NewerContinue(err); token != "" && renewals > 0 {
			renewals--
			opts.Continue = token
			continue
		}
		if err != nil {
			return err
		}
		if err := each(page); err != nil || page.Continue == "" {
			return err
		}
		opts = metav1.ListOptions{Limit: min(2*opts.Limit, c.pageSize), Continue: page.Continue}
	}
}

// current returns the newest position of the API server.
func (c *client) current(ctx context.Context) (uint64, error) {
	page, err := c.page(ctx, &metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return apiwatch.ParsePosition(page.ResourceVersion)
}

// streamingList returns the options of a watch that begins with all existing Events.
func streamingList() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// watch opens a watch and returns its bytes.
func (c *client) watch(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	return apiwatch.Open(ctx, c.connections, c.lasts, c.idleTimeout, opts, c.request)
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
