package match

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Render returns the message of an occurrence that matched. You can send the message even
// if there is an error, which is the first failure of an expression in the alarm's
// message. The text contains that error instead of the value.
func (a *Alarm) Render(ctx context.Context, occ *alarm.Occurrence, known *alarm.Context) (message.Message, error) {
	return a.render(ctx, occ, &variables{event: &occ.Event, context: known})
}

func (a *Alarm) render(ctx context.Context, occ *alarm.Occurrence, vars *variables) (message.Message, error) {
	title, ofTitle, titleErr := a.title.renderOr(ctx, vars, func(*alarm.Event) string { return "" }) // message.New has the default
	text, ofText, textErr := a.text.renderOr(ctx, vars, func(*alarm.Event) string { return a.defaultText(occ, &vars.context.Object) })
	m := message.New(a.ID, occ, vars.context, title, text)
	m.URLs = slices.Concat(ofTitle, ofText)
	return m, cmp.Or(titleErr, textErr)
}

// renderOr renders the template, or the default if the alarm has no template.
func (t *template) renderOr(ctx context.Context, vars *variables, defaultText func(*alarm.Event) string) (text string, urls []string, err error) {
	if t == nil {
		return defaultText(vars.event), nil, nil
	}
	return t.render(ctx, vars)
}

// HasTitle reports whether the alarm has a template of the title.
func (a *Alarm) HasTitle() bool { return a.title != nil }

// HasText reports whether the alarm has a template of the text.
func (a *Alarm) HasText() bool { return a.text != nil }

// defaultText counts the occurrences of the Event, unless the message of the group will count
// those of the group.
func (a *Alarm) defaultText(occ *alarm.Occurrence, object *alarm.Object) string {
	var extra []string
	switch t := a.threshold; {
	case t == nil:
	case a.group == nil: // the other occurrences can be about other objects
		extra = append(extra, fmt.Sprintf("%d or more Events matched within %s, this one:", t.Count, t.Within))
	default:
		extra = append(extra, fmt.Sprintf("%d or more matched within %s", t.Count, t.Within))
	}
	if a.group == nil {
		extra = append(extra, message.EventCounts(occ))
	}
	return message.DefaultText(occ, object, extra...)
}
