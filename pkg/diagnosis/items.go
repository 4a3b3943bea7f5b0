package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxItems is how many items a cause has at most, besides the number of the others. A template of the
// size that etcd stores can have tens of thousands of wrong fields.
const maxItems = 20

// SetItems sets the items of a cause, such as one for each wrong field: the first 20, and the number of
// the others. A single one becomes a part of the message.
func (c *Cause) SetItems(items []string) {
	switch {
	case len(items) == 1:
		c.Message, c.Items = joined(c.Message, items[0]), nil
	case len(items) <= maxItems:
		c.Items = items
	default:
		c.Items = slices.Concat(items[:maxItems], []string{fmt.Sprintf("and %d more", len(items)-maxItems)})
	}
}

// Sentence returns "what is wrong: what to do" as one line, with all items and the root.
func (c *Cause) Sentence() string {
	c = c.withRoot()
	return c.sentence(c.Advice)
}

// ownSentence is Sentence without the root, and with the advice before it was late. It does not change while the
// failure is the same.
func (c *Cause) ownSentence() string { return c.sentence(cmp.Or(c.FirstAdvice, c.Advice)) }

func (c *Cause) sentence(advice string) string {
	return joined(c.Message, strings.Join(c.Items, "; "), advice)
}

// itemPrefix begins the line of an item.
const itemPrefix = "- "

// Lines returns the sentence with a line for each item. It is for the messages of conditions, and a
// single line if there are no items.
func (c *Cause) Lines() string {
	c = c.withRoot()
	if len(c.Items) == 0 {
		return c.Sentence()
	}
	lines := []string{c.Message + ":"}
	for _, item := range c.Items {
		lines = append(lines, itemPrefix+item)
	}
	if c.Advice != "" {
		lines = append(lines, c.Advice)
	}
	return strings.Join(lines, "\n")
}

// SetLines sets message, items and advice from the result of [Cause.Lines]. Text without items is the
// message.
func (c *Cause) SetLines(text string) {
	lines := strings.Split(plaintext.Clean(text), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[1], itemPrefix) {
		c.Message = text
		return
	}
	c.Message = strings.TrimSuffix(lines[0], ":")
	for _, l := range lines[1:] {
		if item, ok := strings.CutPrefix(l, itemPrefix); ok {
			c.Items = append(c.Items, item)
		} else {
			c.Advice = l
		}
	}
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	var set []string
	for _, p := range parts {
		if p != "" {
			set = append(set, p)
		}
	}
	return strings.Join(set, ": ")
}
