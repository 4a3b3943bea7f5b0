package objects

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// The API server sends objects as JSON, because custom resources have no other format. A list or
// a watch is read value by value, and of an object only the needed parts are decoded.

var (
	errMalformed = errors.New("malformed JSON from the API server")
	errTooLarge  = errors.New("an object is larger than 16 MiB")
)

// maxValue limits one object. The limit of etcd for a request, 1.5 MiB, is far below.
const maxValue = 16 << 20

// keptBuffer is the largest buffer that is kept for the next value.
const keptBuffer = 256 << 10

// scanner finds the end of a JSON value that arrives in parts.
type scanner struct {
	depth             int
	inString, escaped bool
}

// feed reads the next part. n is the number of bytes that belong to the value. The value must
// be an object, an array or a string.
func (s *scanner) feed(part []byte) (n int, done bool) {
	for n < len(part) {
		if s.inString {
			n += s.feedString(part[n:])
		} else {
			s.feedByte(part[n])
			n++
		}
		if s.depth <= 0 && !s.inString {
			return n, true
		}
	}
	return n, false
}

func (s *scanner) feedByte(c byte) {
	switch c {
	case '"':
		s.inString = true
	case '{', '[':
		s.depth++
	case '}', ']':
		s.depth--
	}
}

// feedString reads up to the end of a string, and returns the number of bytes read.
func (s *scanner) feedString(part []byte) int {
	for i, c := range part {
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
			return i + 1
		}
	}
	return len(part)
}

// valueReader reads JSON values from a stream.
type valueReader struct {
	in  *bufio.Reader
	buf []byte
}

func newValueReader(r io.Reader) *valueReader {
	return &valueReader{in: bufio.NewReaderSize(r, 64<<10)}
}

// peek skips spaces and returns the next byte without reading it.
func (r *valueReader) peek() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !isSpace(c) {
			return c, r.in.UnreadByte()
		}
	}
}

// skip reads the next byte if it is c, after spaces.
func (r *valueReader) skip(c byte) (bool, error) {
	next, err := r.peek()
	if err != nil || next != c {
		return false, err
	}
	_, err = r.in.ReadByte()
	return true, err
}

// expect reads the next byte, which must be c.
func (r *valueReader) expect(c byte) error {
	if found, err := r.skip(c); err != nil || found {
		return err
	}
	return errMalformed
}

// next returns the next value, which is valid until the next call. The error is io.EOF if the
// stream ends before a value begins.
func (r *valueReader) next() ([]byte, error) {
	c, err := r.peek()
	if err != nil {
		return nil, err
	}
	if cap(r.buf) > keptBuffer {
		r.buf = nil
	}
	r.buf = r.buf[:0]
	if c == '{' || c == '[' || c == '"' {
		err = r.scan()
	} else {
		err = r.scalar()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return r.buf, err
}

func (r *valueReader) scan() error {
	var s scanner
	for {
		if _, err := r.in.Peek(1); err != nil {
			return err
		}
		part, _ := r.in.Peek(r.in.Buffered())
		n, done := s.feed(part)
		r.buf = append(r.buf, part[:n]...)
		if _, err := r.in.Discard(n); err != nil {
			return err
		}
		if done {
			return nil
		}
		if len(r.buf) > maxValue {
			return errTooLarge
		}
	}
}

// scalar reads a number or a literal.
func (r *valueReader) scalar() error {
	for len(r.buf) < 64 {
		c, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		if isSpace(c) || c == ',' || c == '}' || c == ']' {
			return r.in.UnreadByte()
		}
		r.buf = append(r.buf, c)
	}
	return errMalformed
}

// readList calls each with every item of a list, and returns the metadata of the list. The item
// is valid during the call.
func readList(in io.Reader, each func(item []byte) error) (meta metav1.ListMeta, err error) {
	r := newValueReader(in)
	if err := r.expect('{'); err != nil {
		return meta, err
	}
	for {
		key, err := r.key()
		if err != nil || key == "" {
			return meta, err
		}
		switch key {
		case "items":
			err = r.items(each)
		case "metadata":
			err = r.into(&meta)
		default:
			_, err = r.next()
		}
		if err != nil {
			return meta, err
		}
	}
}

// key reads the next key of an object, empty at its end.
func (r *valueReader) key() (string, error) {
	if end, err := r.skip('}'); err != nil || end {
		return "", err
	}
	if _, err := r.skip(','); err != nil {
		return "", err
	}
	var key string
	if err := r.into(&key); err != nil {
		return "", err
	}
	return key, r.expect(':')
}

func (r *valueReader) into(target any) error {
	value, err := r.next()
	if err != nil {
		return err
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(value, target); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// items reads an array of objects, or null.
func (r *valueReader) items(each func([]byte) error) error {
	if array, err := r.skip('['); err != nil || !array {
		_, nextErr := r.next()
		return errors.Join(err, nextErr)
	}
	for {
		if end, err := r.skip(']'); err != nil || end {
			return err
		}
		if _, err := r.skip(','); err != nil {
			return err
		}
		item, err := r.next()
		if err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
}

// eachMember calls each with the members of a JSON object.
func eachMember(object []byte, each func(key, value []byte) error) error {
	at := skipSpace(object, 0)
	if at == len(object) || object[at] != '{' {
		return errMalformed
	}
	for at++; ; {
		at = skipSpace(object, at)
		if at < len(object) && object[at] == ',' {
			at = skipSpace(object, at+1)
		}
		if at < len(object) && object[at] == '}' {
			return nil
		}
		key, value, end := member(object, at)
		if end < 0 {
			return errMalformed
		}
		if err := each(key, value); err != nil {
			return err
		}
		at = end
	}
}

// member returns the member at an offset, and the offset after it, -1 if there is none.
func member(object []byte, at int) (key, value []byte, end int) {
	if at >= len(object) || object[at] != '"' {
		return nil, nil, -1
	}
	end = valueEnd(object, at)
	if end < 0 {
		return nil, nil, -1
	}
	key = object[at+1 : end-1]
	at = skipSpace(object, end)
	if at >= len(object) || object[at] != ':' {
		return nil, nil, -1
	}
	at = skipSpace(object, at+1)
	end = valueEnd(object, at)
	if end < 0 {
		return nil, nil, -1
	}
	return key, object[at:end], end
}

// valueEnd returns the offset after the value at an offset, -1 if the value is not complete.
func valueEnd(raw []byte, at int) int {
	if at >= len(raw) {
		return -1
	}
	if c := raw[at]; c != '{' && c != '[' && c != '"' {
		n := bytes.IndexAny(raw[at:], ",}] \t\r\n")
		if n <= 0 {
			return -1
		}
		return at + n
	}
	var s scanner
	n, done := s.feed(raw[at:])
	if !done {
		return -1
	}
	return at + n
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && isSpace(raw[at]) {
		at++
	}
	return at
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// object is what is read of an object.
type object struct {
	uid      string
	position uint64
	// deleted is the deletionTimestamp, zero without one.
	deleted time.Time
	// size is the number of bytes of the raw object. managers are its raw managedFields.
	size     int
	managers []byte
	// content contains apiVersion, kind, and all fields that can be needed, without
	// managedFields.
	content map[string]any
}

// decodeObject decodes an object of a kind. onlyMetadata leaves out everything but metadata.
// The managers refer to raw.
func decodeObject(raw []byte, apiVersion, kind string, onlyMetadata bool) (*object, error) {
	o := &object{content: map[string]any{}, size: len(raw)}
	meta := map[string]any{}
	err := eachMember(raw, func(key, value []byte) error {
		switch name := string(key); {
		case name == "metadata":
			o.content["metadata"] = meta
			return o.decodeMetadata(meta, value)
		case name == "apiVersion" || name == "kind" || onlyMetadata:
			return nil
		default:
			return decodeMember(o.content, key, value)
		}
	})
	if err != nil {
		return nil, err
	}
	o.content["apiVersion"], o.content["kind"] = apiVersion, kind
	o.uid, _ = meta["uid"].(string)
	version, _ := meta["resourceVersion"].(string)
	if o.position, err = apiwatch.ParsePosition(version); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if o.uid == "" {
		return nil, errMalformed
	}
	if at, ok := meta["deletionTimestamp"].(string); ok {
		o.deleted, _ = time.Parse(time.RFC3339, at)
	}
	return o, nil
}

func (o *object) decodeMetadata(meta map[string]any, raw []byte) error {
	return eachMember(raw, func(key, value []byte) error {
		if string(key) == "managedFields" {
			o.managers = value
			return nil
		}
		return decodeMember(meta, key, value)
	})
}

// decodeMember decodes a value into a map.
func decodeMember(into map[string]any, key, value []byte) error {
	name := string(key)
	if slices.Contains(key, '\\') {
		quoted := slices.Concat([]byte{'"'}, key, []byte{'"'})
		if err := json.UnmarshalCaseSensitivePreserveInts(quoted, &name); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	var decoded any
	if err := json.UnmarshalCaseSensitivePreserveInts(value, &decoded); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	into[name] = decoded
	return nil
}

// written returns an object that contains only managedFields.
func (o *object) written() map[string]any {
	meta := map[string]any{}
	if decodeMember(meta, []byte("managedFields"), o.managers) != nil {
		meta = nil // without managedFields
	}
	return map[string]any{"metadata": meta}
}
