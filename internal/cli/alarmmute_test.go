package cli

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestAlarmMuteMutesUntilATimeAndUnmuteEndsIt(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "Alarm", ns, "crashes", "match: [{reasons: [BackOff]}]\nreceivers: [{name: ops}]")
	read := func() v1alpha1.AlarmSpec {
		t.Helper()
		var a v1alpha1.Alarm
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "crashes"}, &a); err != nil {
			t.Fatal(err)
		}
		return *a.AlarmSpec()
	}
	before := time.Now()
	code, out, errOut := runs(t, "alarm", "mute", "crashes", "--for", "2h", "--reason", "a migration", "--kubeconfig", inContext(t, c, ns))
	spec := read()
	from, until := spec.MuteTimes()
	if want := "Alarm " + ns + "/crashes is muted until " + until.UTC().Format(time.RFC3339) + ".\n"; code != command.ExitOK || out != want {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if lasts := until.Sub(before); lasts < 2*time.Hour || lasts > 2*time.Hour+time.Minute || from.After(time.Now()) || spec.MuteReason != "a migration" {
		t.Errorf("muted from %v until %v for %q", from, until, spec.MuteReason)
	}

	code, out, errOut = runs(t, "alarm", "mute", "crashes", "-n", ns, "--for", "1d", "--kubeconfig", c.Kubeconfig())
	spec = read()
	again, until := spec.MuteTimes()
	if lasts := until.Sub(before); code != command.ExitOK || lasts < 24*time.Hour || lasts > 24*time.Hour+time.Minute || !again.Equal(from) || spec.MuteReason != "a migration" {
		t.Errorf("exit code %d, muted again from %v until %v for %q: %s%s", code, again, until, spec.MuteReason, out, errOut)
	}

	code, out, errOut = runs(t, "alarm", "unmute", "alarm/crashes", "-n", ns, "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || out != "Alarm "+ns+"/crashes is no longer muted.\n" {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	spec = read()
	kept, ended := spec.MuteTimes()
	if !kept.Equal(from) || ended.After(time.Now().Add(time.Second)) || ended.Before(from) || spec.MuteReason != "" {
		t.Errorf("muted from %v until %v for %q", kept, ended, spec.MuteReason)
	}
}

func TestAlarmUnmuteOfAnAlarmThatIsNotMutedChangesNothing(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "ClusterAlarm", "", ns, "match: [{reasons: [BackOff]}]\nreceivers: [{name: ops}]")
	code, out, errOut := runs(t, "alarm", "unmute", "ClusterAlarm/"+ns, "--kubeconfig", c.Kubeconfig())
	if code != command.ExitOK || out != "ClusterAlarm "+ns+" was not muted: nothing changed.\n" {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
}

func TestAlarmMuteReportsWhatIsWrong(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	create(t, c, "Alarm", ns, "planned", "match: [{reasons: [BackOff]}]\nreceivers: [{name: ops}]\n"+
		"muteFrom: 2999-01-01T00:00:00Z\nmuteUntil: 2999-01-02T00:00:00Z")
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no duration":    {[]string{"mute", "crashes"}, command.ExitUsage, "the duration is missing: use --for DURATION"},
		"another unit":   {[]string{"mute", "crashes", "--for", "1month"}, command.ExitUsage, `--for: "1month" is no duration of a second or more: use a form like 30m, 2h, 1d or 1w`},
		"in the past":    {[]string{"mute", "crashes", "--for", "-1h"}, command.ExitUsage, `"-1h" is no duration`},
		"another kind":   {[]string{"mute", "pod/web-0", "--for", "1h"}, command.ExitUsage, `invalid alarm "pod/web-0": use NAME, Alarm/NAME or ClusterAlarm/NAME`},
		"no such Alarm":  {[]string{"mute", "crashes", "--for", "1h"}, command.ExitError, "Alarm " + ns + "/crashes not found: check the name and the namespace, or use ClusterAlarm/NAME"},
		"planned mute":   {[]string{"mute", "planned", "--for", "1h"}, command.ExitError, "Alarm " + ns + "/planned: muted from 2999-01-01T00:00:00Z until 2999-01-02T00:00:00Z: unmute it first"},
		"unmute nothing": {[]string{"unmute", "crashes"}, command.ExitError, "Alarm " + ns + "/crashes not found"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"alarm"}, append(tc.args, "-n", ns, "--kubeconfig", c.Kubeconfig())...)...)
			if code != tc.code || !strings.Contains(errOut, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}
