package objects

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"sigs.k8s.io/json"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// client requests the objects of one resource in all namespaces. Its connections are its own,
// so that a silent one can be closed without an effect on other watches.
type client struct {
	rest        rest.Interface
	connections *connrotation.Dialer
	idle        time.Duration
	pageSize    int64

	// path leads to the resource. onlyMetadata asks for the metadata of objects. bare is true
	// if the resource must never be read otherwise.
	path               string
	onlyMetadata, bare bool
}

func newClient(cfg *rest.Config, t tuning) (*client, error) {
	cfg, connections := apiwatch.Config(cfg)
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	r, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &client{rest: r, connections: connections, idle: t.idle, pageSize: t.pageSize}, nil
}

// target sets what is requested.
func (c *client) target(r alarm.Resource, onlyMetadata bool) {
	c.path = "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
	if r.Group == "" {
		c.path = "/api/" + r.Version + "/" + r.Resource
	}
	c.bare = isSecrets(r)
	c.onlyMetadata = onlyMetadata || c.bare
}

// isSecrets reports whether a resource contains Secrets, whose values are never read.
func isSecrets(r alarm.Resource) bool { return r.Group == "" && r.Resource == "secrets" }

// request does not retry. The watcher does, because it can also list instead.
func (c *client) request(opts *metav1.ListOptions) *rest.Request {
	return c.rest.Get().AbsPath(c.path).SpecificallyVersionedParams(opts, scheme.ParameterCodec, schema.GroupVersion{Version: "v1"}).
		SetHeader("Accept", c.accept(opts.Watch)).MaxRetries(0)
}

// accept returns the format to ask for. An API server that cannot send only metadata sends
// whole objects, except Secrets.
func (c *client) accept(watch bool) string {
	if !c.onlyMetadata {
		return runtime.ContentTypeJSON
	}
	metadata := runtime.ContentTypeJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	if watch {
		metadata = runtime.ContentTypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	if c.bare {
		return metadata
	}
	return metadata + "," + runtime.ContentTypeJSON
}

// page reads one page of a list, and calls each with its items.
func (c *client) page(ctx context.Context, opts *metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(apiwatch.ListTimeout, func() { //nolint:forbidigo // limits a request, as a context does; tests use synctest
		cancel(context.DeadlineExceeded)
		c.connections.CloseAll()
	})
	defer limit.Stop()
	body, err := c.request(opts).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	meta, err := readList(&pausing{body, limit}, each)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return meta, err
}

// pausing extends the time for a page with each read: the reader can be slow because the
// handler is.
type pausing struct {
	io.Reader
	limit *time.Timer
}

// Read implements io.Reader.
func (p *pausing) Read(b []byte) (int, error) {
	p.limit.Reset(apiwatch.ListTimeout)
	defer p.limit.Stop()
	return p.Reader.Read(b)
}

// list calls each with every object, one object in memory. It returns the position of the first
// page. renewed is true if this position expired during the list, and the list continued at a
// newer one: the pages then show different times. A list at an exact position fails instead.
func (c *client) list(ctx context.Context, opts metav1.ListOptions, each func([]byte) error) (position uint64, renewed bool, err error) {
	renewals := apiwatch.MaxRenewals
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		renewals = 0
	}
	for opts.Limit = c.pageSize; ; {
		meta, err := c.page(ctx, &opts, each)
		if token := apiwatch.NewerContinue(err); token != "" && renewals > 0 {
			renewals--
			renewed = true
			opts.Continue = token
			continue
		}
		if err != nil {
			return position, renewed, err
		}
		// Each page has one. Without it, the answer comes from something else, and must not count
		// as the end of the list.
		listed, err := apiwatch.ParsePosition(meta.ResourceVersion)
		if err != nil {
			return 0, renewed, err
		}
		position = cmp.Or(position, listed)
		if meta.Continue == "" {
			return position, renewed, nil
		}
		opts = metav1.ListOptions{Limit: c.pageSize, Continue: meta.Continue}
	}
}

// current returns the newest position of the API server.
func (c *client) current(ctx context.Context) (uint64, error) {
	meta, err := c.page(ctx, &metav1.ListOptions{Limit: 1}, func([]byte) error { return nil })
	if err != nil {
		return 0, err
	}
	return apiwatch.ParsePosition(meta.ResourceVersion)
}

// watch opens a watch after a position.
func (c *client) watch(ctx context.Context, position uint64) (io.ReadCloser, error) {
	return apiwatch.Open(ctx, c.connections, apiwatch.WatchTimeout, c.idle, apiwatch.ResumeAt(position), c.request)
}

// entry is an entry of a watch.
type entry struct {
	kind string
	// object is the raw object.
	object []byte
}

// parseEntry splits an entry. The object refers to raw.
func parseEntry(raw []byte) (e entry, err error) {
	err = eachMember(raw, func(key, value []byte) error {
		switch string(key) {
		case "type":
			e.kind = string(bytesTrimQuotes(value))
		case "object":
			e.object = value
		}
		return nil
	})
	return e, err
}

func bytesTrimQuotes(value []byte) []byte {
	if len(value) < 2 {
		return value
	}
	return value[1 : len(value)-1]
}

// statusError returns the error that an entry of a watch contains.
func statusError(raw []byte) error {
	var status metav1.Status
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &status); err != nil {
		return errMalformed
	}
	return apierrors.FromObject(&status)
}

// bookmarkPosition returns the position of a bookmark.
func bookmarkPosition(raw []byte) (uint64, error) {
	var bookmark metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &bookmark); err != nil {
		return 0, errMalformed
	}
	return apiwatch.ParsePosition(bookmark.ResourceVersion)
}
