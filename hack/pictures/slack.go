package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

//go:embed slack.html
var slackSource string

var slackTemplate = template.Must(template.New("slack.html").Parse(slackSource))

// slackWidth is the width of the channel in pixels.
const slackWidth = 760

// chatMessage is a message in the template.
type chatMessage struct {
	Time   string
	Blocks []chatBlock
}

// chatBlock is a header, a section or a context in the template.
type chatBlock struct {
	Type  string
	Texts []string
}

// slackHTML returns a page with messages as a channel shows them. Times are in UTC. It
// fails if a message has a block of another type than Bongsu's notifier uses.
func slackHTML(posts []post) (string, error) {
	var messages []chatMessage
	for _, p := range posts {
		m := chatMessage{Time: p.at.UTC().Format("3:04 PM")}
		for _, b := range p.blocks {
			shown, err := blockOf(b)
			if err != nil {
				return "", err
			}
			m.Blocks = append(m.Blocks, shown)
		}
		messages = append(messages, m)
	}
	var page strings.Builder
	err := slackTemplate.Execute(&page, messages)
	return page.String(), err
}

func blockOf(b slack.Block) (chatBlock, error) {
	var texts []string
	switch b := b.(type) {
	case *slack.HeaderBlock:
		texts = []string{textOf(b.Text)}
	case *slack.SectionBlock:
		texts = []string{textOf(b.Text)}
	case *slack.ContextBlock:
		texts = elements(b)
	default:
		return chatBlock{}, fmt.Errorf("a block of type %q cannot be shown: add the type to hack/pictures", b.BlockType())
	}
	return chatBlock{string(b.BlockType()), texts}, nil
}

// elements returns the texts of a context.
func elements(c *slack.ContextBlock) []string {
	var texts []string
	for _, e := range c.ContextElements.Elements {
		if t, ok := e.(*slack.TextBlockObject); ok {
			texts = append(texts, textOf(t))
		}
	}
	return texts
}

var (
	dateMarkup = regexp.MustCompile(`<!date\^(\d+)\^[^|>]*\|[^>]*>`)
	unescape   = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// textOf returns a text as Slack shows it. The only markup is that of times.
func textOf(t *slack.TextBlockObject) string {
	shown := t.Text
	if t.Type == slack.MarkdownType {
		shown = dateMarkup.ReplaceAllStringFunc(shown, dateOf)
	}
	return unescape.Replace(shown)
}

// dateOf returns a time as Slack shows it after some days: before, it shows "today".
func dateOf(markup string) string {
	seconds, err := strconv.ParseInt(dateMarkup.FindStringSubmatch(markup)[1], 10, 64)
	if err != nil {
		return markup
	}
	return time.Unix(seconds, 0).UTC().Format("Jan 2, 2006 3:04:05 PM")
}
