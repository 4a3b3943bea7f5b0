package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// maxFrame bounds one entry of a watch; etcd's own limit for a request, 1.5 MiB,
// is far below.
const maxFrame = 16 << 20

// errMalformed is wrapped by what decoder.next returns for an entry that cannot
// be understood although the stream around it can.
var errMalformed = errors.New("malformed watch entry")

var (
	errFrameTooLarge = errors.New("watch entry is larger than 16 MiB")
	errNoEnvelope    = errors.New("object has no protobuf envelope")
)

// protobufMagic begins each object that the API server encodes as protobuf.
var protobufMagic = []byte("k8s\x00")

// decoder reads a protobuf watch. It does what client-go's does, but into the
// same memory again and again and without looking up what kind of object comes.
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

// next reads the next entry: into event, or into status if it is an error.
func (d *decoder) next() (watch.EventType, error) {
	if err := d.readFrame(); err != nil {
		return "", err
	}
	if err := d.decodeFrame(); err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	return watch.EventType(d.envelope.Type), nil
}

// readFrame reads a length in four bytes, the highest first, and as many bytes.
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
