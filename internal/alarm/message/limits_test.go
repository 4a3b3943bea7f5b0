package message_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

func TestADigestAndAGroupKeepTheLimits(t *testing.T) {
	var parts []message.Message
	for i := range 2000 {
		m := messages.New(strings.Repeat("봉", 1000), strings.Repeat("수", 5000))
		m.Events = []message.Event{{Reason: fmt.Sprintf("Reason%03d", i%400), Regarding: message.Reference{Kind: "Pod", Name: fmt.Sprintf("web-%d", i)}}}
		parts = append(parts, m)
	}
	messages.WithinLimits(t, message.Combine(parts))
	messages.WithinLimits(t, message.Compose(message.Group{Total: 5000, Resolved: true}, parts, 2000))
}
