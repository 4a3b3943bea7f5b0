package apiwatch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/kube"
)

const (
	// MaxRenewals limits how often a list continues after its position has expired.
	MaxRenewals = 3
	// pageTimeout limits how long a page brings nothing.
	pageTimeout = time.Minute
)

// List calls each with the objects of one page after another. It returns the position of the first
// page, also with an error. If pages are too large, it asks for smaller ones.
//
// If the API server compacts this position before the list ends, the list continues at newer
// positions, MaxRenewals times at most. renewed is true then: the pages show different times. The list
// contains each object that existed all the time. Objects that were created meanwhile can be
// missing. A list at an exact position fails instead.
func (c *Client[T]) List(ctx context.Context, opts metav1.ListOptions, each func(T) error) (position uint64, renewed bool, err error) {
	renewals := MaxRenewals
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		renewals = 0
	}
	for opts.Limit = c.PageSize; ; {
		meta, err := c.page(ctx, &opts, each)
		if errors.Is(err, kube.ErrTooLarge) && opts.Limit > 1 {
			opts.Limit = max(opts.Limit/8, 1)
			continue
		}
		if token := newerContinue(err); token != "" && renewals > 0 {
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
		listed, err := ParsePosition(meta.ResourceVersion)
		if err != nil {
			return position, renewed, err
		}
		position = cmp.Or(position, listed)
		if meta.Continue == "" {
			return position, renewed, nil
		}
		opts = metav1.ListOptions{Limit: min(2*opts.Limit, c.PageSize), Continue: meta.Continue}
	}
}

// Current returns the newest position of the API server.
func (c *Client[T]) Current(ctx context.Context) (uint64, error) {
	meta, err := c.page(ctx, &metav1.ListOptions{Limit: 1}, func(T) error { return nil })
	if err != nil {
		return 0, err
	}
	return ParsePosition(meta.ResourceVersion)
}

func (c *Client[T]) page(ctx context.Context, opts *metav1.ListOptions, each func(T) error) (metav1.ListMeta, error) {
	body, err := c.open(ctx, opts, c.ListFormat, pageTimeout)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was only read
	meta, err := c.decode(body, each)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return meta, err
}
