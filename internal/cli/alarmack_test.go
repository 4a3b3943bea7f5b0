package cli

import (
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestAlarmAckAcknowledgesAGroupAndUnackEndsIt(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "Alarm", ns, "crashes", "match: [{reasons: [BackOff]}]\ngroup: {by: [regarding.name]}\nreceivers: [{name: ops}]")
	var a v1alpha1.Alarm
	read := func() {
		t.Helper()
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "crashes"}, &a); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := runs(t, append([]string{"alarm"}, append(args, "--kubeconfig", inContext(t, c, ns))...)...)
		if code != command.ExitOK || out != want {
			t.Fatalf("exit code %d: %s%s, want %s", code, out, errOut, want)
		}
		read()
	}
	subject := "Alarm " + ns + "/crashes"
	run(subject+" has no open groups.\n", "groups", "crashes")
	since := metav1.NewTime(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	a.Status.OpenGroups = []v1alpha1.AlarmOpenGroup{
		{Key: strings.Repeat("0", 32), Name: "web-0", Since: since, LastTime: since, Occurrences: 3},
		{Key: strings.Repeat("1", 32), Name: "web-1", Since: since, LastTime: since, Occurrences: 1},
	}
	a.Status.OpenGroupCount = 2
	if err := c.Client.Status().Update(t.Context(), &a); err != nil {
		t.Fatal(err)
	}

	code, out, _ := runs(t, "alarm", "ack", "crashes", "-n", ns, "--comment", "rolling back", "--group", "web-0", "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || !strings.HasPrefix(out, subject+": the group web-0 is acknowledged by ") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	read()
	if got := a.Spec.Acknowledgements; len(got) != 1 || got[0].Group != a.Status.OpenGroups[0].Key || !got[0].Since.Equal(&since) || got[0].Comment != "rolling back" {
		t.Fatalf("%+v", got)
	}
	run(subject+": acknowledged before, nothing changed.\n", "ack", "crashes", "--group", "web-0")
	run(subject+": acknowledged before, nothing changed. To replace the comment, end the acknowledgement with unack first.\n",
		"ack", "crashes", "--group", "web-0", "--comment", "rolled back")
	a.Status.OpenGroups[0].AcknowledgedBy = a.Spec.Acknowledgements[0].By
	if err := c.Client.Status().Update(t.Context(), &a); err != nil {
		t.Fatal(err)
	}
	by := a.Spec.Acknowledgements[0].By
	width := strings.Repeat(" ", max(0, len(by)-len("ACKNOWLEDGED-BY")))
	_, out, _ = runs(t, "alarm", "groups", "crashes", "-n", ns, "--kubeconfig", c.Kubeconfig())
	for _, want := range []string{
		"GROUP   KEY            SINCE                  OCCURRENCES   ACKNOWLEDGED-BY" + width + "   COMMENT\n",
		"web-0   000000000000   2026-11-24T12:00:00Z   3             " + by + "   rolling back\n",
		"web-1   111111111111   2026-11-24T12:00:00Z   1             -" + strings.Repeat(" ", len(by)-1) + "   -\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%swant\n%s", out, want)
		}
	}
	run(subject+": the group web-0 is no longer acknowledged.\n", "unack", "crashes")
	if len(a.Spec.Acknowledgements) > 0 {
		t.Errorf("%+v", a.Spec.Acknowledgements)
	}
}

// whenWritten is a writer that calls a function once, at the first write.
type whenWritten struct {
	once sync.Once
	then func()
}

func (w *whenWritten) Write(p []byte) (int, error) {
	w.once.Do(w.then)
	return len(p), nil
}

// The message arrives before the status, which is written every five seconds.
func TestAlarmAckWaitsForTheStatus(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "Alarm", ns, "fresh", "match: [{reasons: [BackOff]}]\ngroup: {by: [regarding.name]}\nreceivers: [{name: ops}]")
	var out cluster.Buffer
	waits := &whenWritten{then: func() {
		var a v1alpha1.Alarm
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "fresh"}, &a); err != nil {
			t.Error(err)
		}
		a.Status.OpenGroups = []v1alpha1.AlarmOpenGroup{{Key: strings.Repeat("0", 32), Name: "web-0", Since: metav1.Now(), LastTime: metav1.Now(), Occurrences: 1}}
		a.Status.OpenGroupCount = 1
		if err := c.Client.Status().Update(t.Context(), &a); err != nil {
			t.Error(err)
		}
	}}
	code := Run(t.Context(), []string{"alarm", "ack", "fresh", "-n", ns, "--kubeconfig", c.Kubeconfig()}, &out, waits)
	if code != command.ExitOK || !strings.HasPrefix(out.String(), "Alarm "+ns+"/fresh: the group web-0 is acknowledged by ") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

func TestAlarmAckReportsWhatIsWrong(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "Alarm", ns, "single", "match: [{reasons: [BackOff]}]\nreceivers: [{name: ops}]")
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such Alarm":  {[]string{"ack", "other"}, command.ExitError, "Alarm " + ns + "/other not found: check the name and the namespace"},
		"no groups":      {[]string{"ack", "single"}, command.ExitError, "Alarm " + ns + "/single: the alarm has no groups: set spec.group"},
		"both selectors": {[]string{"ack", "single", "--all", "--group", "a"}, command.ExitUsage, "--group and --all: use one of them"},
		"another kind":   {[]string{"groups", "pod/web-0"}, command.ExitUsage, `invalid alarm "pod/web-0"`},
		"unack nothing":  {[]string{"unack", "single"}, command.ExitError, "no group is acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"alarm"}, append(tc.args, "-n", ns, "--kubeconfig", c.Kubeconfig())...)...)
			if code != tc.code || !strings.Contains(errOut, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}
