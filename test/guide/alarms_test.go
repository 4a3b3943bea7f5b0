package guide

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestTheGuideToAlarmsWorksAsWritten(t *testing.T) {
	slack := sink.New(t)
	_, screens := follow(t, "../../docs/alarms.md", "SLACK_WEBHOOK_URL="+slack.URL())

	awaitMessage(t, slack, "worker-9 joined local", "m7g.large in zone-b, 2 CPUs, 8Gi", "the cluster has 2 nodes now")
	awaitMessage(t, slack, "BackOff", "shop/broken", "used more memory than its limit of 64Mi")
	for command, screen := range screens {
		screen.await(command, "BackOff: Pod shop/broken")
	}
	for _, request := range slack.Requests() {
		checkSlack(t, request.Body)
	}
}

// awaitMessage returns when a message has arrived that holds all the texts.
func awaitMessage(t *testing.T, slack *sink.Sink, texts ...string) {
	t.Helper()
	holds := func(body string) bool {
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return true
	}
	arrived := slack.Wait(patience, func(requests []sink.Request) bool {
		for _, r := range requests {
			if holds(string(r.Body)) {
				return true
			}
		}
		return false
	})
	if arrived {
		return
	}
	t.Errorf("no message with %q; received were:", texts)
	for _, r := range slack.Requests() {
		t.Logf("%s", r.Body)
	}
}

// checkSlack demands what Slack demands: a text, and blocks within its limits; and
// that what was not escaped is a date, the only markup of ours.
func checkSlack(t *testing.T, body []byte) {
	t.Helper()
	var message struct {
		Text   string
		Blocks []struct {
			Text     struct{ Text string }
			Elements []struct{ Text string }
		}
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Errorf("%v: %s", err, body)
		return
	}
	if message.Text == "" || len(message.Blocks) == 0 || len(message.Blocks) > 50 {
		t.Errorf("Slack would not take it: %s", body)
	}
	texts := []string{message.Text}
	for _, block := range message.Blocks {
		texts = append(texts, block.Text.Text)
		for _, element := range block.Elements {
			texts = append(texts, element.Text)
		}
	}
	for _, text := range texts {
		if strings.ContainsAny(date.ReplaceAllString(text, ""), "<>") {
			t.Errorf("not escaped: %q", text)
		}
	}
}

var date = regexp.MustCompile(`<!date\^[0-9]+\^[^|<>]*\|[^<>]*>`)
