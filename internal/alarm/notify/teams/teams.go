// Package teams posts messages to a Microsoft Teams channel or chat through the
// webhook of a workflow.
//
// Whatever an Event says is shown and never acted on: it is put into text runs,
// which Teams does not read for Markdown, and no mention is declared in the card.
package teams

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval keeps below the four requests a second that Teams takes for a channel
// (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using#rate-limiting-for-connectors).
const interval = time.Second

// Notifier posts to one workflow.
type Notifier struct{ *httppost.Hook }

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier for the URL of a workflow, which is a secret.
func New(client *httppost.Client, webhookURL string) (*Notifier, error) {
	hook, err := httppost.NewHook(client, webhookURL, httppost.HookConfig{Sink: "teams", Every: interval})
	if err != nil {
		return nil, err
	}
	return &Notifier{hook}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "teams" }
