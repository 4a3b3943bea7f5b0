package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// acknowledging is an operator whose alarm about Nodes sends to an Alertmanager, and to the
// receiver "thread", which shows acknowledgements. The fields spec and open are in the API server.
type acknowledging struct {
	*alerting
	spec v1alpha1.AlarmSpec
	open []v1alpha1.AlarmOpenGroup
}

func newAcknowledging(t *testing.T) *acknowledging {
	t.Helper()
	a := &acknowledging{alerting: newAlerting(t)}
	a.spec = v1alpha1.AlarmSpec{
		Match: []v1alpha1.EventMatch{{Reasons: []string{"NodeNotReady", "NodeReady"}}},
		Group: &v1alpha1.AlarmGroup{By: []string{"regarding.kind", "regarding.name"}},
	}
	a.configure()
	return a
}

// configure gives the alarm to the operator.
func (a *acknowledging) configure() {
	a.t.Helper()
	compiler, err := match.NewCompiler()
	must(a.t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "nodes"}, UID: "nodes", Receivers: []string{"ops", "thread"}, Spec: a.spec, OpenGroups: a.open,
	})
	must(a.t, err)
	a.alarms.Set("nodes", fmt.Sprint(len(a.spec.Acknowledgements), len(a.open)), compiled)
	a.p.matcher.receiver = func(key string) (Receiver, bool) { return Receiver{ID: key, Acknowledges: key == "thread"}, true }
}

// list writes the open groups into the status, and returns them.
func (a *acknowledging) list() []v1alpha1.AlarmOpenGroup {
	a.t.Helper()
	groups, _, err := a.p.Outbox.Groups.List(a.t.Context(), "ClusterAlarm//nodes", 10)
	must(a.t, err)
	a.open = nil
	for _, g := range groups {
		open := v1alpha1.AlarmOpenGroup{Key: g.ID, Name: g.Name, Since: metav1.NewTime(g.Since), LastTime: metav1.NewTime(g.Newest), Occurrences: g.Total}
		for i := range a.spec.Acknowledgements {
			if ack := &a.spec.Acknowledgements[i]; match.AcknowledgementToken(ack) == g.Acknowledged {
				open.AcknowledgedBy, open.AcknowledgedTime = ack.By, &ack.Time
			}
		}
		a.open = append(a.open, open)
	}
	return a.open
}

// acknowledge acknowledges the group of a Node, as it is in the status.
func (a *acknowledging) acknowledge(node string) {
	a.t.Helper()
	groups := a.list()
	i := slices.IndexFunc(groups, func(g v1alpha1.AlarmOpenGroup) bool { return g.Name == "Node/"+node })
	if i < 0 {
		a.t.Fatalf("the group of %s is not open: %+v", node, groups)
	}
	a.spec.Acknowledgements = append(a.spec.Acknowledgements, v1alpha1.AlarmAcknowledgement{
		Group: groups[i].Key, Since: groups[i].Since, By: "ana", Time: metav1.NewTime(a.clock.Now()), Comment: "a disk is replaced",
	})
	a.configure()
}

// kill ends the operator and starts it again. On another disk, it knows only the checkpoint and
// the status.
func (a *acknowledging) kill(otherDisk bool) {
	a.t.Helper()
	a.list()
	a.crash()
	if otherDisk {
		a.dir = a.t.TempDir()
	}
	a.configure()
	a.lead()
	a.configure()
	a.p.acknowledgeOnce(a.t.Context())
}

// receive returns what the receiver thread gets in a time.
func (a *acknowledging) receive(d time.Duration) []string {
	a.t.Helper()
	ctx := a.t.Context()
	a.p.acknowledgeOnce(ctx)
	var got []string
	a.pass(d, nil)
	for {
		entries, err := a.p.Outbox.Pending(ctx, outbox.Query{Receiver: "thread", Lane: outbox.MainLane, Limit: 1})
		must(a.t, err)
		if len(entries) == 0 {
			return got
		}
		var m message.Message
		must(a.t, json.Unmarshal(entries[0].Payload, &m))
		got = append(got, m.Title)
		attempt, err := a.p.Outbox.Prepare(ctx, "thread", outbox.MainLane, []int64{entries[0].ID}, entries[0].Key, entries[0].Payload)
		must(a.t, err)
		_, err = a.p.Outbox.Finish(ctx, attempt, outbox.Outcome{})
		must(a.t, err)
	}
}

func (a *acknowledging) want(d time.Duration, want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.receive(d)); diff != "" {
		a.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

const (
	began    = "node-0: NodeNotReady (Node)"
	resolved = "Resolved: node-0: NodeReady (Node)"
	byAna    = "Acknowledged by ana"
)

func TestAnAcknowledgementHoldsOverKillsAndLostDisks(t *testing.T) {
	for name, between := range map[string]func(a *acknowledging){
		"nothing happens":      func(*acknowledging) {},
		"the operator is dead": func(a *acknowledging) { a.kill(false) },
		"the disk is lost":     func(a *acknowledging) { a.kill(true) },
		"the disk is lost twice": func(a *acknowledging) {
			a.kill(true)
			a.want(time.Minute)
			a.kill(true)
		},
		"the disk is lost long after the acknowledgement": func(a *acknowledging) {
			for range 6 {
				a.want(20 * time.Minute)
				a.happen("NodeNotReady", "node-0")
			}
			a.kill(true)
		},
		"the acknowledgement is read twice": func(a *acknowledging) { a.list(); a.configure() },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAcknowledging(t)
			a.happen("NodeNotReady", "node-0")
			a.want(10*time.Second, began)
			a.acknowledge("node-0")
			a.want(10*time.Second, byAna)
			a.happen("NodeNotReady", "node-0")
			a.want(10 * time.Minute)
			between(a)
			a.happen("NodeNotReady", "node-0")
			a.want(10 * time.Minute)
			a.firing(notReady)() // Alertmanager gets the alert again, or it would end
			a.happen("NodeReady", "node-0")
			a.want(10*time.Second, resolved)

			a.pass(10*time.Minute, nil)
			a.happen("NodeNotReady", "node-0") // this begins another group
			a.want(10*time.Second, began)
		})
	}
}

// The user acknowledges the group while no operator runs, and an occurrence waits for its message.
func TestAnAcknowledgementBetweenTwoProcessesIsInForceBeforeTheNextMessage(t *testing.T) {
	a := newAcknowledging(t)
	a.happen("NodeNotReady", "node-0")
	a.want(10*time.Second, began)
	a.happen("NodeNotReady", "node-0") // its message is due in five minutes
	a.acknowledge("node-0")
	a.kill(false)
	a.happen("NodeNotReady", "node-0")
	a.want(20*time.Minute, byAna)
}

func TestOtherGroupsOfAnAcknowledgedAlarmAreSent(t *testing.T) {
	a := newAcknowledging(t)
	a.happen("NodeNotReady", "node-0")
	a.happen("NodeNotReady", "node-1")
	a.want(10*time.Second, began, strings.ReplaceAll(began, "node-0", "node-1"))
	a.acknowledge("node-0")
	a.want(10*time.Second, byAna)
	a.happen("NodeNotReady", "node-0")
	a.happen("NodeNotReady", "node-1")
	a.want(10*time.Minute, strings.ReplaceAll(began, "node-0", "node-1"))
	a.spec.Acknowledgements = nil
	a.configure()
	a.happen("NodeNotReady", "node-0")
	a.want(10*time.Minute, began)
}

// The user saw a group that was resolved, and began again, before the acknowledgement was stored.
func TestAnAcknowledgementOfAGroupThatEndedSilencesNothing(t *testing.T) {
	a := newAcknowledging(t)
	a.happen("NodeNotReady", "node-0")
	a.want(10*time.Second, began)
	seen := a.list()
	a.happen("NodeReady", "node-0")
	a.want(10*time.Minute, resolved)
	a.happen("NodeNotReady", "node-0")
	a.want(10*time.Second, began)
	a.spec.Acknowledgements = []v1alpha1.AlarmAcknowledgement{{Group: seen[0].Key, Since: seen[0].Since, By: "ana", Time: metav1.NewTime(a.clock.Now())}}
	a.configure()
	a.happen("NodeNotReady", "node-0")
	a.want(10*time.Minute, began)
	if got := a.list(); len(got) != 1 || got[0].AcknowledgedBy != "" {
		t.Errorf("%+v, want one group that is not acknowledged", got)
	}
}

func TestTheNameOfAGroupIsCutBetweenCharacters(t *testing.T) {
	name := groupName([]alarm.GroupValue{{Value: "Pod"}, {}, {Value: strings.Repeat("é", 60)}})
	if want := "Pod/" + strings.Repeat("é", 48); name != want {
		t.Errorf("got %q, want %q", name, want)
	}
}
