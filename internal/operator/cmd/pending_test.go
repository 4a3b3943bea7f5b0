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
	batch := outbox.Batch{Position: 5}
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
			Receiver: receiver, Alarm: "Alarm/shop/crashes", Key: fmt.Sprint(i), Position: uint64(i), Count: 2,
			CreatedAt: time.Now(), Payload: payload,
		})
	}
	if err := l.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	pending, err := l.Pending(t.Context(), "ClusterAlarmReceiver//ops", 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := l.Prepare(t.Context(), "ClusterAlarmReceiver//ops", pending[2].ID, "digest", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acknowledge(t.Context(), digest); err != nil {
		t.Fatal(err)
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
		"AlarmReceiver/shop/team: 1 waiting, of 2 occurrences\n", "ClusterAlarmReceiver//ops: 2 waiting, of 4 occurrences\n",
		"Alarm/shop/crashes  2      waiting  message 3\n", "in digests:\n", "Z  message 2\n",
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
			r.Digested[0].Message.Text != "some text" || r.Digested[0].Occurrences != 2 {
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
