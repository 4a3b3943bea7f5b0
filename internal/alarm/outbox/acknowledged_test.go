package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// acknowledged is an acknowledgement of a group that began at this second or before.
func acknowledged(until int) *group.Acknowledgement {
	return &group.Acknowledgement{Token: int64(1000 + until), Until: day.Add(time.Duration(until) * time.Second)}
}

// by makes entries belong to an alarm with an acknowledgement.
func by(a *group.Acknowledgement, also ...func(*Entry)) func(*Entry) {
	return func(e *Entry) {
		e.Member.Event.Acknowledgement = a
		for _, change := range also {
			change(e)
		}
	}
}

func resolving(e *Entry) { e.Member.Event.Kind = group.Resolution }

// acknowledge puts an acknowledgement into force. With a notice, the receiver shows it.
func (g *grouped) acknowledge(a *group.Acknowledgement, id string, notice bool) {
	g.t.Helper()
	event := group.Event{Kind: group.Notice, At: g.clock.Now(), Acknowledgement: a}
	if !notice {
		event.Message = group.Suppressed
	}
	must(g.t, g.Commit(context.Background(), Change{Entries: []Entry{{
		Receiver: "r", Alarm: "Alarm/shop/rollouts", Key: fmt.Sprint("notice ", a.Token), CreatedAt: g.clock.Now(), Payload: []byte("by ana"),
		Member: &Membership{Group: id, Event: event},
	}}}))
}

func (g *grouped) wantSent(want ...string) {
	g.t.Helper()
	if diff := cmp.Diff(want, g.sendDue()); diff != "" {
		g.t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestAnAcknowledgedGroupSendsOnlyItsResolution(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a", "b")
	g.at(10)
	g.wantSent("a=1", "b=1")
	ack := acknowledged(0)
	g.acknowledge(ack, "a", false)
	for i := range 10 {
		g.occur(20+100*i, by(ack), "a")
		g.restart()
		g.at(20 + 100*i + 90)
		g.wantSent()
	}
	g.occur(1020, nil, "b")
	g.occur(1020, by(ack, resolving), "a")
	g.at(1030) // the resolution waits for no message that was not sent
	g.wantSent("a=1", "b=1")

	g.occur(1100, by(ack), "a") // another group, which no one acknowledged
	g.at(1200)
	g.wantSent("a=1")
}

func TestOccurrencesThatWaitAreNotSentAfterAnAcknowledgement(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a")
	g.at(10)
	g.wantSent("a=1")
	g.occur(11, nil, "a", "b")
	ack := acknowledged(0)
	g.acknowledge(ack, "a", false)
	g.restart()
	g.at(200)
	g.wantSent("b=1")
	if n := g.Groups.TakeSilenced(); n != 0 { // lost with the process: it is a metric
		t.Errorf("%d occurrences, want 0 after a restart", n)
	}
	g.occur(201, by(ack), "a")
	if n := g.Groups.TakeSilenced(); n != 1 {
		t.Errorf("%d occurrences were silenced, want 1", n)
	}
	listed, count, err := g.Groups.List(t.Context(), "Alarm/shop/rollouts", 1)
	if err != nil || count != 2 || len(listed) != 1 || listed[0].ID != "a" || listed[0].Total != 3 || listed[0].Acknowledged != ack.Token {
		t.Errorf("%d groups: %+v, %v", count, listed, err)
	}
}

func TestTheNoticeOfAnAcknowledgementIsSentOnce(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a")
	g.at(10)
	g.wantSent("a=1")
	ack := acknowledged(0)
	for range 3 {
		g.acknowledge(ack, "a", true)
		g.restart()
	}
	g.wantSent("a=0")
	g.acknowledge(ack, "a", true)
	g.wantSent()
	if open, err := g.Groups.Unacknowledged(t.Context(), "a", ack); open || err != nil {
		t.Errorf("the group counts as not acknowledged: %v", err)
	}
}

func TestAnAcknowledgementOfAnEarlierGroupSilencesNothing(t *testing.T) {
	g := newGrouped(t)
	ack := acknowledged(0)
	g.occur(100, by(ack), "a")
	g.acknowledge(ack, "a", true)
	g.at(200)
	g.wantSent("a=1")
	g.acknowledge(ack, "other", true)
	g.wantSent()
}

func TestAResolutionThatDoesNotLastIsNotSentForAnAcknowledgedGroup(t *testing.T) {
	g := newGrouped(t)
	ack := acknowledged(0)
	g.occur(0, nil, "a")
	g.at(10)
	g.wantSent("a=1")
	g.acknowledge(ack, "a", false)
	g.occur(100, by(ack, resolving), "a")
	g.occur(100, by(ack), "a")
	g.at(200)
	g.wantSent()
	g.occur(200, by(ack, resolving), "a")
	g.at(300)
	g.wantSent("a=1")
}

func TestAnAcknowledgedGroupThatBecomesQuietIsResolvedOnce(t *testing.T) {
	g := newGrouped(t)
	ack := acknowledged(0)
	g.occurQuiet(0, nil, "a")
	g.at(10)
	g.wantSent("a=1")
	g.acknowledge(ack, "a", false)
	g.occurQuiet(100, by(ack), "a")
	g.at(600)
	g.ReadUpTo(day.Add(600 * time.Second))
	g.wantSent("a=0")
	g.at(5000)
	g.wantSent()
}

// The disk was lost, and a replay finds only later occurrences of the group.
func TestAnAcknowledgementStaysInForceIfTheBeginOfTheGroupIsNotKnown(t *testing.T) {
	g := newGrouped(t)
	ack := acknowledged(500)
	ack.Announced = true
	g.occur(400, by(ack, func(e *Entry) { e.Member.Event.Message = group.Sent }), "a")
	later := acknowledged(0) // as compiled without the status
	later.Token = ack.Token
	g.occur(700, by(later), "a")
	g.acknowledge(ack, "a", true)
	g.at(900)
	g.wantSent()
}

func TestListingTheGroupsOfAnAlarmReadsNoOthers(t *testing.T) {
	const want = "SEARCH open_group USING INDEX group_by_alarm (<expr>=?)"
	if plan := explain(t, open(t, t.TempDir()), selectListed); !strings.Contains(plan, want) {
		t.Errorf("got\n%s\nwant %s", plan, want)
	}
}
