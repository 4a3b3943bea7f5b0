package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pending"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// nextAttempt is when the message that is set aside is sent again.
var nextAttempt = time.Date(2100, 1, 1, 0, 0, 0, 0, time.Local)

// newOutbox creates an outbox and leaves it open. For one receiver, three messages were put
// into a digest and two wait. For another receiver, one waits.
func newOutbox(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := outbox.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	batch := outbox.Change{Events: &outbox.EventStep{Position: 5}}
	for i := range 6 {
		payload, err := json.Marshal(message.Message{Title: fmt.Sprint("message ", i), Text: "some text"})
		if err != nil {
			t.Fatal(err)
		}
		receiver := "ClusterAlarmReceiver//ops"
		if i == 5 {
			receiver = "AlarmReceiver/shop/team"
		}
		batch.Entries = append(batch.Entries, outbox.Entry{
			Receiver: receiver, Alarm: "Alarm/shop/crashes", Key: fmt.Sprint(i), Subject: fmt.Sprint(i), Position: uint64(i), Count: 2,
			CreatedAt: time.Now(), Payload: payload,
		})
	}
	if err := l.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	pending, err := l.Pending(t.Context(), outbox.Query{Receiver: "ClusterAlarmReceiver//ops", Lane: outbox.MainLane, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := l.Prepare(t.Context(), "ClusterAlarmReceiver//ops", outbox.MainLane, []int64{pending[0].ID, pending[1].ID, pending[2].ID}, "digest", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Finish(t.Context(), digest, outbox.Outcome{KeepEntries: true}); err != nil {
		t.Fatal(err)
	}
	aside, err := l.Prepare(t.Context(), "ClusterAlarmReceiver//ops", outbox.MainLane, []int64{pending[2].ID + 1}, "3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.NoteFailure(t.Context(), aside, outbox.Failure{Error: "the receiver answers 503", Next: nextAttempt}); err != nil {
		t.Fatal(err)
	}
	if moved, err := l.SetAside(t.Context(), aside); !moved || err != nil {
		t.Fatal(moved, err)
	}
	return dir
}

func TestPendingListsWaitingMessagesAndEntriesOfDigests(t *testing.T) {
	dir := newOutbox(t)
	code, out, errOut := run(t, "pending", "--data-dir", dir, "--kubeconfig", "none")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{
		"note: unknown whether this outbox belongs to the leader: ",
		"AlarmReceiver shop/team: 1 waiting, of 2 occurrences\n", "ClusterAlarmReceiver ops: 2 waiting, of 4 occurrences\n",
		"Alarm/shop/crashes  2      set aside, ID 3, tried since ", "  message 3  the receiver answers 503\n", nextAttempt.Format(time.RFC3339), "  waiting ", "  message 4  -\n", "in digests:\n", "Z  message 2\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if _, out, _ := run(t, "pending", "--data-dir", dir, "--kubeconfig", "none", "--limit", "1"); !strings.Contains(out, "and 1 more\n") || strings.Contains(out, "message 4") {
		t.Errorf("with a limit: %s", out)
	}
	for _, name := range []string{"ops", "clusteralarmreceiver/ops", "ClusterAlarmReceiver//ops"} {
		_, out, _ := run(t, "pending", "--data-dir", dir, "--kubeconfig", "none", "--receiver", name, "-o", "json")
		var report pending.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Receivers) != 1 {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		r := report.Receivers[0]
		if report.Leader != pending.LeaderUnknown || len(r.Waiting) != 2 || len(r.Digested) != 3 || !r.Digested[0].Delivered ||
			r.Digested[0].Message.Text != "some text" || r.Waiting[0].LastError != "the receiver answers 503" || !r.Waiting[0].NextAttemptAt.Equal(nextAttempt) || r.Digested[0].Occurrences != 2 {
			t.Errorf("%s: got %s", name, out)
		}
	}
	if _, out, _ := run(t, "__complete", "pending", "--data-dir", dir, "--receiver", ""); out != "AlarmReceiver/shop/team\nClusterAlarmReceiver//ops\n:4\n" {
		t.Errorf("got %q", out)
	}
}

func TestPendingShowsWhetherTheOutboxIsTheLeaders(t *testing.T) {
	c := cluster.Shared(t)
	t.Cleanup(func() { // after the operators have stopped, because other tests use the cluster
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: options.Default().Namespace, Name: options.LeaseName}}
		if err := c.Client.Delete(context.Background(), lease); err != nil {
			t.Error(err)
		}
	})
	var dir string
	output := func() string {
		_, out, errOut := run(t, "pending", "--data-dir", dir, "--kubeconfig", c.Kubeconfig())
		return out + errOut
	}
	eventually := NewWithT(t).Eventually // the checkpoint is written after the start
	o := c.StartOperator(t, func(opts *options.Options) { dir = opts.DataDir })
	eventually(output).WithTimeout(time.Minute).Should(And(Not(ContainSubstring("note:")), ContainSubstring("Nothing waits")))
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	c.StartOperator(t, func(opts *options.Options) { opts.LeaderElect = true })
	eventually(output).WithTimeout(time.Minute).Should(ContainSubstring("note: this outbox is out of date: read the outbox of the leader, pod "))
	_, out, _ := run(t, "pending", "--data-dir", newOutbox(t), "--kubeconfig", c.Kubeconfig())
	if !strings.Contains(out, "unknown whether this outbox belongs to the leader: it belongs to another cluster") {
		t.Errorf("another cluster: %s", out)
	}
}
