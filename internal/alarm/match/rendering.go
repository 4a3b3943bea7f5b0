package match

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Render returns the message of an occurrence that matched. The message can be sent
// even if there is an error: the first failure of an expression in the alarm's
// message. The text contains that error instead of the value.
func (a *Alarm) Render(ctx context.Context, occ *alarm.Occurrence, known *alarm.Context) (message.Message, error) {
	return a.render(ctx, occ, &variables{event: &occ.Event, context: known})
}

func (a *Alarm) render(ctx context.Context, occ *alarm.Occurrence, vars *variables) (message.Message, error) {
	title, titleErr := a.title.renderOr(ctx, vars, message.DefaultTitle)
	text, textErr := a.text.renderOr(ctx, vars, func(*alarm.Event) string { return a.defaultText(occ, &vars.context.Object) })
	return message.New(a.ID, occ, vars.context, title, text), cmp.Or(titleErr, textErr)
}

// orDefault renders the template, or the default if the alarm has none.
func (t *template) renderOr(ctx context.Context, vars *variables, text func(*alarm.Event) string) (string, error) {
	if t == nil {
		return text(vars.event), nil
	}
	return t.render(ctx, vars)
}

func (a *Alarm) defaultText(occ *alarm.Occurrence, object *alarm.Object) string {
	if t := a.threshold; t != nil {
		return message.DefaultText(occ, object, fmt.Sprintf("%d or more matched within %s", t.Count, t.Within))
	}
	return message.DefaultText(occ, object)
}
