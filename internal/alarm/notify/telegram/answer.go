package telegram

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// refusal is what the Bot API answers
// (https://core.telegram.org/bots/api#making-requests). It has no codes but the
// status; what a 400 is about stands in words.
type refusal struct {
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter      int64 `json:"retry_after"`
		MigrateToChatID int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// advice is by what descriptions begin with, after "Bad Request: " where there is
// that: what concerns the chat, not the message.
var advice = []struct{ prefix, text string }{
	{"chat not found", "the chat does not exist, or the bot is not in it; add the bot, or correct spec.telegram.chatID"},
	{"group chat was upgraded", "the group became a supergroup with another ID; set that in spec.telegram.chatID"},
	{"message thread not found", "the topic does not exist; correct spec.telegram.threadID"},
	{"topic_closed", "the topic is closed; open it, and annotate the receiver"},
	{"not enough rights", "the bot may not write to this chat; let it, and annotate the receiver"},
	{"need administrator rights", "the bot may not write to this channel; make it an administrator there, and annotate the receiver"},
	{"chat_write_forbidden", "the bot may not write to this chat; let it, and annotate the receiver"},
}

func judge(a *httppost.Answer) {
	if a.Taken {
		return
	}
	var r refusal
	_ = json.Unmarshal(a.Body, &r) // what cannot be read says no more than the status
	const maxSeconds = 24 * 60 * 60
	a.RetryAfter = max(a.RetryAfter, time.Duration(min(max(r.Parameters.RetryAfter, 0), maxSeconds))*time.Second)
	switch a.Status {
	case http.StatusUnauthorized, http.StatusNotFound:
		a.Advice = "the bot's token is not valid; put the one that BotFather shows into the Secret"
	case http.StatusForbidden:
		a.Advice = "the bot was removed from the chat or blocked; add it again, and annotate the receiver"
	case http.StatusBadRequest:
		judgeBadRequest(a, &r)
	}
}

func judgeBadRequest(a *httppost.Answer, r *refusal) {
	description := strings.ToLower(strings.TrimPrefix(r.Description, "Bad Request: "))
	for _, known := range advice {
		if strings.HasPrefix(description, known.prefix) {
			a.Refuse(notify.Park, known.text)
			return
		}
	}
}
