// Package pending shows the contents of an operator's outbox: the messages that wait, and
// the entries of past digests. It reads while the operator runs and changes nothing. The
// checkpoint shows whether the outbox belongs to the leader.
package pending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Report is the content of an outbox. Its JSON form is the output of `bongsu-operator
// pending -o json`. Releases can add fields.
type Report struct {
	// Leader is Yes if the outbox belongs to the leading replica. It is No if it does
	// not: the outbox is then out of date. It is Unknown if neither could be found out.
	Leader string `json:"leader"`
	// Note explains Leader, or says what to do.
	Note string `json:"note,omitempty"`
	// Receivers that have entries.
	Receivers []Receiver `json:"receivers"`
}

// Values of Report.Leader.
const (
	LeaderYes     = "Yes"
	LeaderNo      = "No"
	LeaderUnknown = "Unknown"
)

// Receiver contains the entries of a receiver that wait, and those of past digests.
type Receiver struct {
	// Receiver is KIND/NAMESPACE/NAME. The namespace of cluster-scoped kinds is empty.
	Receiver string `json:"receiver"`
	// Entries and Occurrences are the numbers that wait, including those that are not
	// listed.
	Entries     int64 `json:"entries"`
	Occurrences int64 `json:"occurrences"`
	// Waiting contains the oldest entries that wait. Digested contains the newest entries
	// of digests of the last 24 h, 1,000 at most.
	Waiting  []Waiting  `json:"waiting"`
	Digested []Digested `json:"digested"`
}

// Entry is a message of an alarm to a receiver.
type Entry struct {
	// Alarm is KIND/NAMESPACE/NAME.
	Alarm string `json:"alarm"`
	// Occurrences is the number of occurrences in the entry.
	Occurrences int64 `json:"occurrences"`
	// CreatedAt is the time at which the alarm matched.
	CreatedAt time.Time `json:"createdAt"`
	// Message has the form of a webhook's body (docs/webhook.schema.json). It is missing
	// if the stored message cannot be read.
	Message *message.Message `json:"message,omitempty"`
}

// Waiting is an Entry that is not sent yet.
type Waiting struct {
	Entry
	// ID is the Idempotency-Key of the message, if it contains no other entries.
	ID string `json:"id"`
	// SetAside is true if the receiver accepts other messages, but not this one, or not the
	// one before it about the same object.
	SetAside bool `json:"setAside,omitempty"`
	// TriedSince is the time of the first attempt, if there was one.
	TriedSince *time.Time `json:"triedSince,omitempty"`
	// LastError is why the last attempt failed, if one did: 256 bytes at most, without any
	// URL or secret. NextAttemptAt is when the operator tries again. After a restart, it tries
	// at once.
	LastError     string     `json:"lastError,omitempty"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty"`
	// DueAt is the time at which the message of its group is made, if it waits in a
	// group.
	DueAt *time.Time `json:"dueAt,omitempty"`
}

// Digested is an Entry that was part of a digest.
type Digested struct {
	Entry
	// Digest is the Idempotency-Key of the message.
	Digest string `json:"digest"`
	// Delivered is true if the message was accepted at EndedAt. Otherwise, it was given
	// up then.
	Delivered bool      `json:"delivered"`
	EndedAt   time.Time `json:"endedAt"`
}

// Read reads the outbox in a directory. It reads the receivers for which wanted returns
// true, and at most limit entries of each list; 0 is no limit.
func Read(ctx context.Context, dir string, limit int, wanted func(receiver string) bool) (*Report, outbox.State, error) {
	view, err := outbox.Inspect(ctx, dir, limit, wanted)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, outbox.State{}, fmt.Errorf("no outbox in %s: use the operator's --data-dir (.bongsu/data for `bongsu local`)", dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, outbox.State{}, fmt.Errorf("no permission to read the outbox in %s: run this command as the user of the operator", dir)
	case errors.Is(err, file.ErrOlderSchema), errors.Is(err, file.ErrNewerSchema):
		return nil, outbox.State{}, fmt.Errorf("%w: use the version of bongsu-operator that wrote the outbox", err)
	case err != nil:
		return nil, outbox.State{}, err
	}
	report := &Report{Leader: LeaderUnknown, Receivers: []Receiver{}}
	for i := range view.Receivers {
		report.Receivers = append(report.Receivers, receiver(&view.Receivers[i]))
	}
	return report, view.State, nil
}

func receiver(v *outbox.ReceiverView) Receiver {
	r := Receiver{
		Receiver: alarm.ReceiverKey(v.Receiver), Entries: v.Entries, Occurrences: v.Count,
		Waiting: []Waiting{}, Digested: []Digested{},
	}
	for i := range v.Waiting {
		w := &v.Waiting[i]
		r.Waiting = append(r.Waiting, Waiting{
			Entry: entry(&w.Entry), ID: w.Key, SetAside: w.SetAside, TriedSince: optionalTime(w.FirstTried),
			LastError: w.Failure.Error, NextAttemptAt: optionalTime(w.Failure.Next), DueAt: optionalTime(w.Due),
		})
	}
	for i := range v.Digested {
		d := &v.Digested[i]
		r.Digested = append(r.Digested, Digested{Entry: entry(&d.Entry), Digest: d.Digest, Delivered: d.Delivered, EndedAt: d.EndedAt})
	}
	return r
}

func entry(e *outbox.Entry) Entry {
	read := Entry{Alarm: e.Alarm, Occurrences: e.Count, CreatedAt: e.CreatedAt}
	var m message.Message
	if json.Unmarshal(e.Payload, &m) == nil {
		read.Message = &m
	}
	return read
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// FindLeader sets Leader. It compares the state of the outbox with the checkpoint in the
// namespace of the operator's Lease. If it fails, Leader stays Unknown.
func (r *Report) FindLeader(ctx context.Context, c client.Client, lease client.ObjectKey, state outbox.State) error {
	m, found, err := checkpoint.NewStore(c, lease.Namespace).Read(ctx)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("no replica has led in this cluster yet")
	case m.ClusterUID != state.ClusterUID:
		return errors.New("it belongs to another cluster than the kubeconfig")
	case m.Epoch == state.Epoch || m.Epoch == state.NextEpoch:
		r.Leader = LeaderYes
	default:
		r.Leader = LeaderNo
		r.Note = "this outbox is out of date: read the outbox of the leader, " + leader(ctx, c, lease)
	}
	return nil
}

// leader describes how to find the leading replica.
func leader(ctx context.Context, c client.Client, key client.ObjectKey) string {
	var lease coordinationv1.Lease
	err := c.Get(ctx, key, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return fmt.Sprintf("the holder of the Lease %s in namespace %s", key.Name, key.Namespace)
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return fmt.Sprintf("pod %s in namespace %s", pod, key.Namespace)
}

// WriteText prints a report as text, as of now.
func WriteText(out io.Writer, r *Report, now time.Time) error {
	p := &printer{plaintext.Printer{Out: out}, now}
	if r.Note != "" {
		p.Line("note: %s", plaintext.Line(r.Note))
	}
	if len(r.Receivers) == 0 {
		p.Line("Nothing waits, and no digest was sent in the last 24 hours.")
	}
	for i := range r.Receivers {
		if i > 0 {
			p.Line("")
		}
		p.receiver(&r.Receivers[i])
	}
	return p.Err
}

type printer struct {
	plaintext.Printer
	now time.Time
}

func (p *printer) receiver(r *Receiver) {
	name := r.Receiver
	if key, err := kube.ParseKey(name); err == nil {
		name = key.Display()
	}
	p.Line("%s: %d waiting, of %d occurrences", plaintext.Line(name), r.Entries, r.Occurrences)
	p.table("MATCHED\tALARM\tCOUNT\tSTATE\tNEXT-ATTEMPT\tTITLE\tLAST-ERROR", len(r.Waiting), func(i int) []string {
		w := &r.Waiting[i]
		return append(w.cells(), w.state(), w.nextAttempt(p.now), w.title(), cmp.Or(plaintext.Line(w.LastError), "-"))
	})
	if rest := r.Entries - int64(len(r.Waiting)); rest > 0 && len(r.Waiting) > 0 {
		p.Line("  and %d more", rest)
	}
	if len(r.Digested) == 0 {
		return
	}
	p.Line("  in digests:")
	p.table("MATCHED\tALARM\tCOUNT\tDIGEST\tTITLE", len(r.Digested), func(i int) []string {
		d := &r.Digested[i]
		return append(d.cells(), d.state(), d.title())
	})
}

func (p *printer) table(header string, rows int, cells func(i int) []string) {
	if rows == 0 || p.Err != nil {
		return
	}
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  "+header) // Flush returns the error
	for i := range rows {
		_, _ = fmt.Fprintln(table, "  "+strings.Join(cells(i), "\t"))
	}
	p.Err = table.Flush()
}

func (e *Entry) cells() []string {
	return []string{e.CreatedAt.Format(time.RFC3339), plaintext.Line(e.Alarm), strconv.FormatInt(e.Occurrences, 10)}
}

func (e *Entry) title() string {
	if e.Message == nil {
		return "(cannot be read)"
	}
	return plaintext.Line(e.Message.Title)
}

func (w *Waiting) state() string {
	switch {
	case w.SetAside && w.TriedSince != nil:
		return "set aside, ID " + plaintext.Line(w.ID) + ", tried since " + w.TriedSince.Format(time.RFC3339)
	case w.SetAside:
		return "waits for a message that is set aside"
	case w.TriedSince != nil:
		return "tried since " + w.TriedSince.Format(time.RFC3339)
	case w.DueAt != nil:
		return "in a group until " + w.DueAt.Format(time.RFC3339)
	default:
		return "waiting"
	}
}

// nextAttempt returns "now" for a time that has passed: the operator tries as soon as it can.
func (w *Waiting) nextAttempt(now time.Time) string {
	switch {
	case w.NextAttemptAt == nil:
		return "-"
	case !w.NextAttemptAt.After(now):
		return "now"
	}
	return w.NextAttemptAt.Format(time.RFC3339)
}

func (d *Digested) state() string {
	if d.Delivered {
		return "accepted " + d.EndedAt.Format(time.RFC3339)
	}
	return "given up " + d.EndedAt.Format(time.RFC3339)
}
