package pipeline

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// budgetShare divides the free space: one budget can use a sixteenth of it. The free space
// shrinks with every budget that is used, so that each can take less than the one before it.
// Many together leave space for others: 50 full ones leave a twentieth.
const budgetShare = 16

const overflowText = "messages are dropped, because those that wait use up their share of the outbox: " +
	"correct receivers that accept nothing, or match fewer Events"

// budgetOf returns the budget of an alarm's messages. The Alarms of a namespace share one.
// ClusterAlarms have one for each namespace that contains Events, because its tenant can
// write them. Events of cluster-scoped objects are in the namespace default and have a
// budget of their own.
func budgetOf(id kube.Key, occ *alarm.Occurrence) string {
	namespace := id.Namespace
	if id.Kind == alarm.KindClusterAlarm {
		namespace = occ.Event.Namespace
		if namespace == metav1.NamespaceDefault && occ.Event.Regarding.Namespace == "" {
			namespace = ""
		}
	}
	return id.Kind + "/" + namespace + "/"
}

// budgets decides whether the outbox has space for the entries of one batch. It is not safe
// for concurrent use.
type budgets struct {
	usage func(ctx context.Context, budget, receiver string) (outbox.Usage, error)

	// free, used and byReceiver include the entries that were admitted. free is negative
	// before it is known.
	free       int64
	used       map[string]int64
	byReceiver map[[2]string]int64
}

func newBudgets(usage func(ctx context.Context, budget, receiver string) (outbox.Usage, error)) *budgets {
	return &budgets{usage: usage, free: -1, used: map[string]int64{}, byReceiver: map[[2]string]int64{}}
}

// admit divides entries with the same content into those that can be stored and those that
// must be dropped. A budget can use a sixteenth of the free space, and a receiver what its
// budget leaves of that.
func (b *budgets) admit(ctx context.Context, entries []outbox.Entry) (admitted, refused []outbox.Entry, err error) {
	if len(entries) == 0 {
		return nil, nil, nil
	}
	budget, size := entries[0].Budget, outbox.ContentBytes(entries)
	for i := range entries {
		e := &entries[i]
		if used, ok := b.used[budget]; ok && used+size > b.free/budgetShare {
			return admitted, append(refused, entries[i:]...), nil // without a read for each receiver
		}
		if err := b.load(ctx, budget, e.Receiver); err != nil {
			return nil, nil, err
		}
		if b.fits(budget, e.Receiver, size) {
			admitted = append(admitted, *e)
		} else {
			refused = append(refused, *e)
		}
	}
	if len(admitted) > 0 {
		b.free -= size
		b.used[budget] += size
	}
	for i := range admitted {
		b.byReceiver[[2]string{budget, admitted[i].Receiver}] += size
	}
	return admitted, refused, nil
}

// load reads what is used at the beginning of the batch.
func (b *budgets) load(ctx context.Context, budget, receiver string) error {
	key := [2]string{budget, receiver}
	if _, ok := b.byReceiver[key]; ok {
		return nil
	}
	u, err := b.usage(ctx, budget, receiver)
	if err != nil {
		return err
	}
	b.byReceiver[key] = u.Receiver
	if _, ok := b.used[budget]; !ok {
		b.used[budget] = u.Budget
	}
	if b.free < 0 {
		b.free = u.Free
	}
	return nil
}

func (b *budgets) fits(budget, receiver string, size int64) bool {
	share := b.free / budgetShare
	return b.byReceiver[[2]string{budget, receiver}]+size <= share-b.used[budget]
}
