package pipeline

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// tenantShare divides the free space: one tenant can use a sixteenth of it. The free space
// shrinks with every tenant that is used, so that each can take less than the one before it.
// Many together leave space for others: 50 full ones leave a twentieth.
const tenantShare = 16

const overflowText = "messages are dropped, because those that wait use up their share of the outbox: " +
	"correct receivers that accept nothing, or match fewer Events"

// spaceOf returns the tenant of an alarm's messages. The Alarms of a namespace share one.
// ClusterAlarms have one for each namespace that contains Events, because its tenant can
// write them. Events of cluster-scoped objects are in the namespace default and have a
// tenant of their own.
func spaceOf(id kube.Key, occ *alarm.Occurrence) string {
	namespace := id.Namespace
	if id.Kind == alarm.KindClusterAlarm {
		namespace = occ.Event.Namespace
		if namespace == metav1.NamespaceDefault && occ.Event.Regarding.Namespace == "" {
			namespace = ""
		}
	}
	return id.Kind + "/" + namespace + "/"
}

// space decides whether the outbox has space for the entries of one batch. It is not safe
// for concurrent use.
type space struct {
	usage func(ctx context.Context, tenant, receiver string) (outbox.Usage, error)

	// free, used and byReceiver include the entries that were admitted. free is negative
	// before it is known.
	free       int64
	used       map[string]int64
	byReceiver map[[2]string]int64
}

func newSpace(usage func(ctx context.Context, tenant, receiver string) (outbox.Usage, error)) *space {
	return &space{usage: usage, free: -1, used: map[string]int64{}, byReceiver: map[[2]string]int64{}}
}

// admit divides entries with the same content into those that can be stored and those that
// must be dropped. A tenant can use a sixteenth of the free space, and a receiver what its
// tenant leaves of that.
func (b *space) admit(ctx context.Context, entries []outbox.Entry) (admitted, refused []outbox.Entry, err error) {
	if len(entries) == 0 {
		return nil, nil, nil
	}
	tenant, size := entries[0].Tenant, outbox.ContentBytes(entries)
	for i := range entries {
		e := &entries[i]
		if used, ok := b.used[tenant]; ok && used+size > b.free/tenantShare {
			return admitted, append(refused, entries[i:]...), nil // without a read for each receiver
		}
		if err := b.load(ctx, tenant, e.Receiver); err != nil {
			return nil, nil, err
		}
		if b.fits(tenant, e.Receiver, size) {
			admitted = append(admitted, *e)
		} else {
			refused = append(refused, *e)
		}
	}
	if len(admitted) > 0 {
		b.free -= size
		b.used[tenant] += size
	}
	for i := range admitted {
		b.byReceiver[[2]string{tenant, admitted[i].Receiver}] += size
	}
	return admitted, refused, nil
}

// load reads what is used at the beginning of the batch.
func (b *space) load(ctx context.Context, tenant, receiver string) error {
	key := [2]string{tenant, receiver}
	if _, ok := b.byReceiver[key]; ok {
		return nil
	}
	u, err := b.usage(ctx, tenant, receiver)
	if err != nil {
		return err
	}
	b.byReceiver[key] = u.Receiver
	if _, ok := b.used[tenant]; !ok {
		b.used[tenant] = u.Tenant
	}
	if b.free < 0 {
		b.free = u.Free
	}
	return nil
}

func (b *space) fits(tenant, receiver string, size int64) bool {
	share := b.free / tenantShare
	return b.byReceiver[[2]string{tenant, receiver}]+size <= share-b.used[tenant]
}
