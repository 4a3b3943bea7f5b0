package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// labelledNamespaces have the labels team and secret. Those in unread cannot be read.
type labelledNamespaces struct {
	*unreadables
	unread map[string]alarm.Unread
}

func (n *labelledNamespaces) Labels(name string) (map[string]string, bool, alarm.Unread) {
	if why := n.unread[name]; why != "" {
		return nil, false, why
	}
	return map[string]string{"team": "of-" + name, "secret": "x"}, true, ""
}

// newLabelled returns a pipeline in which the receiver "chat" chooses a channel by the label team.
func newLabelled(t *testing.T, spec v1alpha1.AlarmSpec) (*Pipeline, *labelledNamespaces) {
	t.Helper()
	n := &labelledNamespaces{unreadables: &unreadables{}, unread: map[string]alarm.Unread{}}
	p := newParkingLot(t, n.unreadables, map[string]v1alpha1.AlarmSpec{"chat": spec, "plain": spec})
	p.matcher.namespaces = n
	p.matcher.receiver = func(key string) (Receiver, bool) {
		return Receiver{ID: key, NamespaceLabels: map[string][]string{"chat": {"team"}}[key]}, true
	}
	return p, n
}

// labelsIn returns the object and the labels of each message that waits for a receiver, sorted.
func (p *Pipeline) labelsIn(t *testing.T, receiver string) (all []string) {
	t.Helper()
	entries, err := p.Outbox.Pending(t.Context(), outbox.Query{Receiver: receiver, Lane: outbox.MainLane, Limit: 1000})
	must(t, err)
	for i := range entries {
		var m message.Message
		must(t, json.Unmarshal(entries[i].Payload, &m))
		all = append(all, fmt.Sprint(m.Events[0].Regarding.Name, " ", m.NamespaceLabels))
	}
	slices.Sort(all)
	return all
}

var everything = v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}}

func TestAMessageHasTheLabelOfItsNamespaceThatTheReceiverNeeds(t *testing.T) {
	p, _ := newLabelled(t, everything)
	all := happened("shop/web", "bank/web", "/node")
	forged := happened("shop/forged")[0]
	forged.Position, forged.Event.UID, forged.Event.Regarding.Namespace = 4, "forged", "bank"
	p.handleAll(t, append(all, forged))
	want := []string{"forged map[]", "node map[]", "web map[team:of-bank]", "web map[team:of-shop]"}
	if diff := cmp.Diff(want, p.labelsIn(t, "chat")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"forged map[]", "node map[]", "web map[]", "web map[]"}, p.labelsIn(t, "plain")); diff != "" {
		t.Errorf("an alarm whose receivers need no label: %s", diff)
	}
}

func TestAMessageWaitsUntilTheLabelsOfItsNamespaceAreRead(t *testing.T) {
	p, n := newLabelled(t, everything)
	n.unread["shop"] = "the API server does not answer"
	p.handleAll(t, happened("shop/web", "bank/web"))
	if diff := cmp.Diff([]string{"web map[team:of-bank]"}, p.labelsIn(t, "chat")); diff != "" {
		t.Error(diff)
	}
	if got := len(p.labelsIn(t, "plain")); got != 2 {
		t.Errorf("%d messages of an alarm that needs no label, want 2", got)
	}
	clear(n.unread)
	p.retryOnce(t)
	if diff := cmp.Diff([]string{"web map[team:of-bank]", "web map[team:of-shop]"}, p.labelsIn(t, "chat")); diff != "" {
		t.Error(diff)
	}
}

// The message of a group would otherwise show the Events of one team in the channel of another.
func TestAMessageThatCanBeAboutSeveralNamespacesHasNoLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		by   []string
		want []string
	}{
		"a group of a namespace": {[]string{"regarding.namespace"}, []string{"web map[team:of-bank]", "web map[team:of-shop]"}},
		"a group of namespaces":  {[]string{"reason"}, []string{"web map[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newLabelled(t, v1alpha1.AlarmSpec{
				Match: everything.Match, Group: &v1alpha1.AlarmGroup{By: tc.by, WaitSeconds: new(int32), IntervalSeconds: new(int32(30))},
			})
			p.release(t, "shop/web", "bank/web")
			if diff := cmp.Diff(tc.want, p.labelsIn(t, "chat")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheSharedGroupOfAClusterAlarmHasNoLabel(t *testing.T) {
	p, _ := newLabelled(t, v1alpha1.AlarmSpec{
		Match: everything.Match, Group: &v1alpha1.AlarmGroup{By: []string{"regarding.namespace", "regarding.name"}, WaitSeconds: new(int32)},
	})
	var objects []string
	for i := range maxGroupsOfAlarm + 2 {
		objects = append(objects, fmt.Sprintf("team-%d/web", i))
	}
	p.release(t, objects...)
	labels := map[bool]int{}
	for _, shown := range p.labelsIn(t, "chat") {
		labels[shown != "web map[]"]++
	}
	if labels[true] != maxGroupsOfAlarm-1 && labels[true] != maxGroupsOfAlarm || labels[false] != 1 {
		t.Errorf("%d messages with a label and %d without one", labels[true], labels[false])
	}
}

// release handles occurrences about these objects, and then releases the messages of their groups.
// The outbox composes them as that of the operator does.
func (p *Pipeline) release(t *testing.T, objects ...string) {
	t.Helper()
	clock := clocktesting.NewFakeClock(p.Clock.Now())
	store, err := outbox.Open(t.Context(), t.TempDir(), outbox.WithComposer(ComposeGroup), outbox.WithClock(clock))
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	p.Outbox = store
	p.handleAll(t, happened(objects...))
	clock.Step(time.Minute)
	_, err = store.Release(t.Context())
	must(t, err)
}
