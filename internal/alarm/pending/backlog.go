// Package backlog tells what an operator's ledger holds: what waits to be sent, and what
// was put together into digests lately. It reads beside the operator and changes
// nothing; whose the ledger is it finds out by the mirror.
package pending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// Report is what a ledger holds. Its JSON form is that of `bongsu alarm pending -o json`;
// fields may be added to it.
type Report struct {
	// Leader is Yes if the ledger is that of the replica that leads, No if it is not:
	// then it is out of date. Unknown is for what could not be found out.
	Leader string `json:"leader"`
	// Note says why, or what to do.
	Note string `json:"note,omitempty"`
	// Receivers are those that have something in it.
	Receivers []Receiver `json:"receivers"`
}

// Values of Report.Leader.
const (
	LeaderYes     = "Yes"
	LeaderNo      = "No"
	LeaderUnknown = "Unknown"
)

// Receiver is what a receiver has before it, and was told in digests lately.
type Receiver struct {
	// Receiver is KIND/NAMESPACE/NAME, with an empty namespace for those of the cluster.
	Receiver string `json:"receiver"`
	// Entries and Occurrences are all that wait, also what is not listed.
	Entries     int64 `json:"entries"`
	Occurrences int64 `json:"occurrences"`
	// Waiting are the oldest that wait, Digested the newest of those that were told of
	// in digests: of the last 24 h, at most 1,000.
	Waiting  []Waiting  `json:"waiting"`
	Digested []Digested `json:"digested"`
}

// Entry is what an alarm has to say to a receiver.
type Entry struct {
	// Alarm is KIND/NAMESPACE/NAME.
	Alarm string `json:"alarm"`
	// Occurrences is how many it stands for.
	Occurrences int64 `json:"occurrences"`
	// CreatedAt is when it was matched.
	CreatedAt time.Time `json:"createdAt"`
	// Message is the body of a webhook (docs/webhook.schema.json); nothing if it cannot
	// be read.
	Message *message.Message `json:"message,omitempty"`
}

// Waiting is an Entry that is still to be sent.
type Waiting struct {
	Entry
	// TriedSince is when the message that it is part of was first tried, if it was.
	TriedSince *time.Time `json:"triedSince,omitempty"`
	// DueAt is when the message of its group is made, if it waits for that.
	DueAt *time.Time `json:"dueAt,omitempty"`
}

// Digested is an Entry that was told of in a digest.
type Digested struct {
	Entry
	// Digest is the Idempotency-Key of the message.
	Digest string `json:"digest"`
	// Delivered says that it was accepted at EndedAt; else it was given up then.
	Delivered bool      `json:"delivered"`
	EndedAt   time.Time `json:"endedAt"`
}

// Read reads the ledger in a directory: of each receiver that is wanted at most so many
// of either list, 0 for all.
func Read(ctx context.Context, dir string, limit int, wanted func(receiver string) bool) (*Report, outbox.State, error) {
	view, err := outbox.Inspect(ctx, dir, limit, wanted)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, outbox.State{}, fmt.Errorf("there is no ledger in %s: give the operator's --data-dir, which of `bongsu local` is .bongsu/data", dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, outbox.State{}, fmt.Errorf("you may not read the ledger in %s: run this as whom the operator runs", dir)
	case errors.Is(err, outbox.ErrOlderSchema), errors.Is(err, outbox.ErrNewerSchema):
		return nil, outbox.State{}, fmt.Errorf("%w: use the bongsu of the operator's version", err)
	case err != nil:
		return nil, outbox.State{}, err
	}
	report := &Report{Leader: LeaderUnknown, Receivers: []Receiver{}}
	for i := range view.Receivers {
		report.Receivers = append(report.Receivers, receiver(&view.Receivers[i]))
	}
	return report, view.State, nil
}

func receiver(o *outbox.ReceiverView) Receiver {
	r := Receiver{
		Receiver: o.Receiver, Entries: o.Entries, Occurrences: o.Count,
		Waiting: []Waiting{}, Digested: []Digested{},
	}
	for i := range o.Waiting {
		w := &o.Waiting[i]
		r.Waiting = append(r.Waiting, Waiting{Entry: entry(&w.Entry), TriedSince: optionalTime(w.FirstTried), DueAt: optionalTime(w.Due)})
	}
	for i := range o.Digested {
		d := &o.Digested[i]
		r.Digested = append(r.Digested, Digested{Entry: entry(&d.Entry), Digest: d.Digest, Delivered: d.Delivered, EndedAt: d.EndedAt})
	}
	return r
}

func entry(e *outbox.Entry) Entry {
	told := Entry{Alarm: e.Alarm, Occurrences: e.Count, CreatedAt: e.CreatedAt}
	var m message.Message
	if json.Unmarshal(e.Payload, &m) == nil {
		told.Message = &m
	}
	return told
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// FindLeader says in the report whether a ledger in that state is the leader's: the
// mirror, in the operator's namespace, has the token of who leads. An error says why that
// is not known.
func (r *Report) FindLeader(ctx context.Context, c client.Client, namespace string, state outbox.State) error {
	m, found, err := checkpoint.NewStore(c, namespace).Read(ctx)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("nobody has led in this cluster yet")
	case m.ClusterUID != state.ClusterUID:
		return errors.New("it is of another cluster than the kubeconfig")
	case m.Epoch == state.Epoch || m.Epoch == state.NextEpoch:
		r.Leader = LeaderYes
	default:
		r.Leader = LeaderNo
		r.Note = "this is not the ledger of the replica that leads, and out of date: ask " + leader(ctx, c, namespace)
	}
	return nil
}

// leader is how to find the replica that leads.
func leader(ctx context.Context, c client.Client, namespace string) string {
	var lease coordinationv1.Lease
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: options.LeaseName}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return fmt.Sprintf("the one that holds the Lease %s in namespace %s", options.LeaseName, namespace)
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return fmt.Sprintf("pod %s in namespace %s", pod, namespace)
}
