package message_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

func TestDigestsAndGroupMessagesAreWithinTheLimits(t *testing.T) {
	var parts []message.Message
	for i := range 2000 {
		m := messages.New(strings.Repeat("봉", 1000), strings.Repeat("수", 5000))
		m.Events = []message.Event{{Reason: fmt.Sprintf("Reason%03d", i%400), Regarding: message.Reference{Kind: "Pod", Name: fmt.Sprintf("web-%d", i)}}}
		parts = append(parts, m)
	}
	messages.WithinLimits(t, message.Combine(parts))
	var group []message.Part
	for _, m := range parts {
		group = append(group, message.Part{Message: m})
	}
	messages.WithinLimits(t, message.Compose(message.Group{Total: 5000, Resolved: true}, group, 2000).Message)
}

func TestAsTestMarksTheTitleAndRenamesTheAlarm(t *testing.T) {
	m := message.Message{Alarm: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "crashes"}, Title: strings.Repeat("x", message.MaxTitleLength)}
	got := m.AsTest()
	if !strings.HasPrefix(got.Title, "[Test] xxx") || len([]rune(got.Title)) != message.MaxTitleLength {
		t.Errorf("the title is %q", got.Title)
	}
	if got.Alarm.Name != "crashes-test" || m.Alarm.Name != "crashes" {
		t.Errorf("the alarm is %q, and was %q before", got.Alarm.Name, m.Alarm.Name)
	}
}
