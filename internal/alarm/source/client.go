package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// client requests the Events of all namespaces.
type client = apiwatch.Client[*eventsv1.EventList]

// watchTimeout is the minimum duration of a watch. The API server sends no bookmarks for Events,
// because it does not cache them. The end of a watch that brought nothing for a while is therefore
// the only sign that no Event is unread. Two watches in a row, of 50 seconds at most, and twice
// ClockDifference are less than the two minutes in docs/guarantees.md.
const watchTimeout = 25 * time.Second

func newClient(cfg *rest.Config) (*client, error) {
	c, err := apiwatch.NewClient(cfg, runtime.ContentTypeProtobuf, readPage)
	if err != nil {
		return nil, err
	}
	c.Path, c.WatchTimeout = "/apis/events.k8s.io/v1/events", watchTimeout
	return c, nil
}

// maxPage limits a page of a list, in bytes. A tenant can create Events that are almost as large
// as a request.
const maxPage = 16 << 20

// readPage calls each with one page, which is in memory.
func readPage(page io.Reader, each func(*eventsv1.EventList) error) (metav1.ListMeta, error) {
	raw, err := io.ReadAll(io.LimitReader(page, maxPage+1))
	if err == nil && len(raw) > maxPage {
		err = kube.ErrTooLarge
	}
	list := &eventsv1.EventList{}
	if err == nil {
		err = runtime.DecodeInto(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), raw, list)
	}
	if err != nil {
		return list.ListMeta, err
	}
	return list.ListMeta, each(list)
}

// streamingList returns the options of a watch that begins with all existing Events.
func streamingList() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
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
