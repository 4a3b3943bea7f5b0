package healthcheck

import (
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// maxMessage is the limit of a message, in bytes.
	maxMessage = 512
	// maxBody is how much of an answer is read, in bytes.
	maxBody = 8 << 10
)

// line makes one line of a text.
func line(s string) string { return plaintext.Cut(plaintext.Line(s), maxMessage) }

// told is what of a body is worth telling: plain text and JSON, not pages.
func told(contentType string, body []byte) string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" || !utf8.Valid(trimRune(body)) {
		return ""
	}
	switch {
	case mediaType == "", mediaType == "text/plain", mediaType == "application/json", strings.HasSuffix(mediaType, "+json"):
		return line(string(body))
	}
	return ""
}

// trimRune takes off the end of a body what its limit cut in two.
func trimRune(body []byte) []byte {
	if len(body) < maxBody {
		return body
	}
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(body); r != utf8.RuneError || size != 1 {
			break
		}
		body = body[:len(body)-1]
	}
	return body
}
