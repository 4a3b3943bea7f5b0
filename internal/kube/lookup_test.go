package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page answers a list with one pod, and perhaps with more pages.
type page struct {
	client.Reader
	more string
	got  *client.ListOptions
}

func (p *page) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	p.got = (&client.ListOptions{}).ApplyOptions(opts)
	pods := list.(*corev1.PodList)
	pods.Items, pods.Continue = []corev1.Pod{{}}, p.more
	return nil
}

// A tenant decides how many pods there are. The one that uses most can be on a later page.
func TestSomeOfManyPodsAreNoAnswer(t *testing.T) {
	few, many := &page{}, &page{more: "next"}
	if pods, err := NewLookup(t.Context(), few, "shop").Pods(); err != nil || len(pods) != 1 || few.got.Namespace != "shop" || few.got.Limit != maxNamed {
		t.Errorf("got %d pods and %v with %+v", len(pods), err, few.got)
	}
	if _, err := NewLookup(t.Context(), many, "shop").Pods(); !errors.Is(err, errTooMany) {
		t.Errorf("got %v, want %v", err, errTooMany)
	}
}
