package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

const (
	eventType = "io.bongsu.alarm.v1"
	// dataSchema is the $id of docs/webhook.schema.json.
	dataSchema = "https://bongsu.io/schemas/webhook/v1.json"
)

// envelope turns bodies into CloudEvents. The same bodies and keys always result in the same
// bytes.
type envelope struct {
	// request returns the request that contains the CloudEvents. Only batched mode can have
	// several.
	request func(context.Context, []cloudevents.Event) (*http.Request, error)
}

var (
	structured = &envelope{single(binding.WithForceStructured)}
	binary     = &envelope{single(binding.WithForceBinary)}
	batched    = &envelope{func(ctx context.Context, events []cloudevents.Event) (*http.Request, error) {
		return cehttp.NewHTTPRequestFromEvents(ctx, "", events)
	}}
)

// single returns the request in a mode that contains one CloudEvent.
func single(mode func(context.Context) context.Context) func(context.Context, []cloudevents.Event) (*http.Request, error) {
	return func(ctx context.Context, events []cloudevents.Event) (*http.Request, error) {
		req := &http.Request{Header: http.Header{}}
		return req, cehttp.WriteRequest(mode(ctx), binding.ToMessage(&events[0]), req)
	}
}

// wrap returns the body to post and its additional headers.
func (e *envelope) wrap(ctx context.Context, messages []notify.BatchMessage) ([]byte, http.Header, error) {
	var events []cloudevents.Event
	for _, m := range messages {
		event, err := newEvent(m.Key, m.Body)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, *event)
	}
	req, err := e.request(ctx, events)
	if err != nil {
		return nil, nil, fmt.Errorf("write CloudEvents: %w", err)
	}
	wrapped, err := io.ReadAll(req.Body)
	return wrapped, req.Header, err
}

func newEvent(key string, body []byte) (*cloudevents.Event, error) {
	var m message.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("decode a message: %w", err)
	}
	event := cloudevents.New(cloudevents.CloudEventsVersionV1)
	event.SetID(key)
	event.SetType(eventType)
	event.SetSource(source(&m))
	event.SetDataSchema(dataSchema)
	if subject := subject(&m); subject != "" {
		event.SetSubject(subject)
	}
	if !m.LastSeen.IsZero() {
		event.SetTime(m.LastSeen.UTC())
	}
	if err := event.SetData(cloudevents.ApplicationJSON, body); err != nil {
		return nil, fmt.Errorf("set the data of a CloudEvent: %w", err)
	}
	event.DataBase64 = false // the data is JSON, and SetData expects binary data
	return &event, event.Validate()
}

// source returns the alarm as a URI-reference, such as
// /clusters/prod/namespaces/shop/alarms/crashes. It returns only the cluster for a
// digest of several alarms.
func source(m *message.Message) string {
	parts := []string{"clusters", m.Cluster}
	switch {
	case m.Alarm.Name == "":
	case m.Alarm.Namespace == "":
		parts = append(parts, "clusteralarms", m.Alarm.Name)
	default:
		parts = append(parts, "namespaces", m.Alarm.Namespace, "alarms", m.Alarm.Name)
	}
	return "/" + escape(parts)
}

// subject returns the object if all Events regard the same one: Pod/shop/web-0, or
// Node/node-7.
func subject(m *message.Message) string {
	if len(m.Events) == 0 {
		return ""
	}
	first := m.Events[0].Regarding
	for _, e := range m.Events {
		if e.Regarding != first {
			return ""
		}
	}
	if first.Namespace == "" {
		return escape([]string{first.Kind, first.Name})
	}
	return escape([]string{first.Kind, first.Namespace, first.Name})
}

// escape joins the parts of a path. It escapes them, because they may come from an
// Event and attributes may become headers.
func escape(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return strings.Join(escaped, "/")
}
