package httppost_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestTheAnswerIsKeptWithoutWhatItRepeatsOfTheRequest(t *testing.T) {
	server := sink.New(t)
	client := newClient(t, nil, nil)
	request := httppost.Request{
		URL: server.URL() + "?key=a%2Fvery%2Fsecret%2Fkey",
		Header: http.Header{
			"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("ops:correct/horse"))},
			"X-Tenant":      {"shop-7"},
			"X-Token":       {"Token tok-17", "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:pass-7"))},
			"X-Other":       {"Basic " + base64.StdEncoding.EncodeToString([]byte("ops:a:b/c"))},
			"Content-Type":  {"application/json"},
		},
		Body: []byte(`{"routing_key": "0123456789abcdef", "payload": {"summary": "the Pod web-0 restarts"}, "count": 12345678}`),
	}
	for answer, want := range map[string]string{
		`"payload.summary" is too long`:                 `"payload.summary" is too long`,
		`routing_key 0123456789abcdef is unknown`:       `routing_key [...] is unknown`,
		`no field "the Pod web-0 restarts"`:             `no field "[...]"`,
		`want application/json of ` + server.URL():      `want application/json of [...]`,
		`/T0/B0/secret`:                                 `[...]`,
		`secret`:                                        `[...]`,
		`a/very/secret/key and a%2Fvery%2Fsecret%2Fkey`: `[...] and [...]`,
		`{"error": "a\/very\/secret\/key"}`:             `{"error": "[...]"}`,
		`ops:correct/horse, X-Tenant shop-7`:            `[...], X-Tenant [...]`,
		`b3BzOmNvcnJlY3QvaG9yc2U=`:                      `[...]`,
		`the value tok-17 is not valid`:                 `the value [...] is not valid`,
		`the password pass-7 is wrong`:                  `the password [...] is wrong`,
		`the password a:b/c is wrong`:                   `the password [...] is wrong`,
	} {
		server.Script(sink.Status(http.StatusBadRequest, answer))
		got, _ := errors.AsType[*notify.SendError](client.Post(t.Context(), request))
		if got == nil || got.Answer != want {
			t.Errorf("%s: got %+v, want %s", answer, got, want)
		}
	}
	for url, echoes := range map[string][]string{
		strings.Replace(server.URL(), "http://", "http://ops:correct%2Fhorse@", 1): {base64.StdEncoding.EncodeToString([]byte("ops:correct/horse")), "correct/horse", "correct%2Fhorse"},
		strings.Replace(server.URL(), "http://", "http://ops:a,b;c@", 1):           {"a,b;c"},
	} {
		for _, echo := range echoes {
			server.Script(sink.Status(http.StatusBadRequest, "wrong login: "+echo))
			got, _ := errors.AsType[*notify.SendError](client.Post(t.Context(), httppost.Request{URL: url}))
			if got == nil || got.Answer != "wrong login: [...]" {
				t.Errorf("%s: got %+v, want no part of the login in the URL", echo, got)
			}
		}
	}
	server.Script(sink.Status(http.StatusNoContent, ""), sink.Status(http.StatusOK, "refused, says the body"))
	request.Classify = func(r *httppost.Response) { r.Refuse(notify.Reject, "refused") }
	for range 2 {
		if got, _ := errors.AsType[*notify.SendError](client.Post(t.Context(), request)); got == nil || got.Answer != "" {
			t.Errorf("got %+v, want no answer: it accepts the request", got)
		}
	}
}
