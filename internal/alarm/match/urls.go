package match

import (
	"regexp"
	"strings"
)

// authorURL is an address that chats may show as a link. It has no user, and no character that starts
// markup or a mention.
var authorURL = regexp.MustCompile(`^https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?([/?#][A-Za-z0-9._~/?#=&%+,;:$-]*)?$`)

// Limits of the addresses in a text.
const (
	maxURLs      = 10
	maxURLLength = 1_000
)

const (
	https = "https://"
	// urlEnds end an address. urlTail is punctuation that is not part of it if it is at its end.
	urlEnds = " \t\r\n<>\"'`\\{}|^"
	urlTail = ".,;:!?()[]"
)

// urlFinder finds the addresses that an author wrote into a template. The author chooses the host.
// Values can only be in what follows it, and are escaped there.
type urlFinder struct {
	b *strings.Builder
	// open is where an address begins that has not ended, or -1.
	open int
	urls []string
}

// literal writes a text of the author.
func (u *urlFinder) literal(text string) {
	for text != "" {
		if u.open < 0 {
			begin := strings.Index(text, https)
			if begin < 0 {
				break
			}
			u.b.WriteString(text[:begin])
			text, u.open = text[begin:], u.b.Len()
		}
		end := strings.IndexFunc(text, func(r rune) bool { return r > '~' || strings.ContainsRune(urlEnds, r) })
		if end < 0 {
			break
		}
		u.b.WriteString(text[:end])
		u.end()
		text = text[end:]
	}
	u.b.WriteString(text)
}

// value writes the value of an expression. In an address, only the letters, digits and signs stay that
// mean nothing there.
func (u *urlFinder) value(text string) {
	if u.open >= 0 && !strings.ContainsAny(u.b.String()[u.open+len(https):], "/?#") {
		u.open = -1 // it would change the host
	}
	if u.open >= 0 {
		text = escapeInURL(text)
	}
	u.b.WriteString(text)
}

func (u *urlFinder) end() {
	if u.open < 0 {
		return
	}
	url := strings.TrimRight(u.b.String()[u.open:], urlTail)
	u.open = -1
	if len(u.urls) < maxURLs && len(url) <= maxURLLength && authorURL.MatchString(url) {
		u.urls = append(u.urls, url)
	}
}

func escapeInURL(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if isWord(rune(c)) || c == '-' || c == '.' || c == '~' {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', digits[c>>4], digits[c&15]}))
		}
	}
	return b.String()
}
