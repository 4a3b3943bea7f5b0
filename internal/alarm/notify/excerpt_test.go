package notify

import (
	"strings"
	"testing"
)

func TestAnExcerptIsOneShortLineWithoutWhatItRepeats(t *testing.T) {
	const token = "xoxb-1234567890-abcdefghij"
	for name, tc := range map[string]struct {
		answer, want string
	}{
		"a text":                 {"invalid_payload\n", "invalid_payload"},
		"JSON":                   {"{\n  \"message\": \"Cannot send an empty message\"\n}", `{ "message": "Cannot send an empty message" }`},
		"control characters":     {"a\x1b[31m b\x00", "a[31m b"},
		"a web page":             {" <!DOCTYPE html>", ""},
		"no text":                {"\x89PNG\xff\xfe\xfd\xfc\xfb", ""},
		"nothing":                {"", ""},
		"a secret":               {"the token " + token + " is wrong", "the token [...] is wrong"},
		"a secret twice":         {token + token, "[...]"},
		"a part of a secret":     {"token=" + token[5:] + ", or so", "token=[...], or so"},
		"the ends of a secret":   {token[:4] + "***" + token[len(token)-4:], "xoxb***ghij"},
		"a short secret":         {"the password pass1 is wrong", "the password [...] is wrong"},
		"a long answer":          {strings.Repeat("é", 2000), strings.Repeat("é", 98) + "…"},
		"a secret at the limit":  {strings.Repeat("a ", 506) + token, strings.Repeat("a ", 98) + "a…"},
		"characters of a secret": {"größer: Schlüssel-ä", "größer: [...]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Excerpt([]byte(tc.answer), []string{"https://example.com/" + token + "?a=b", "pass1", "Schlüssel-äöü"})
			if got != tc.want || len(got) > maxExcerpt {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A tenant can write the text of an Event, and answer with it.
func TestALongTextThatRepeatsItselfDelaysNoExcerpt(t *testing.T) {
	long := strings.Repeat("a", 4<<20)
	if got := Excerpt([]byte(long), []string{long, long}); got != omission {
		t.Errorf("got %q", got)
	}
}

func TestOnlyARefusedMessageIsExplainedByTheAnswer(t *testing.T) {
	for class, want := range map[Class]string{
		Retry: "it fails", Stop: "it fails", Reject: "it fails. The answer: 'no such field'",
	} {
		if got := (&SendError{Class: class, Text: "it fails", Answer: "no such field"}).Explain(); got != want {
			t.Errorf("%s: got %q, want %q", class, got, want)
		}
	}
}
