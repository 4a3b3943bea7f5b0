package fit

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Piece is a part of a text. URL is true for an address that the author of the alarm wrote.
type Piece struct {
	Text string
	URL  bool
}

// Pieces splits a text at the addresses of its author. Only whole words are addresses: another text
// that begins with one is not. Punctuation at the end of a word does not belong to it.
func Pieces(text string, urls []string) (pieces []Piece) {
	text = plaintext.Clean(text)
	done := 0
	for at := 0; at < len(text); {
		end := at + max(0, strings.IndexFunc(text[at:], unicode.IsSpace))
		if end == at && !startsWithSpace(text[at:]) {
			end = len(text)
		}
		word := strings.TrimLeft(text[at:end], "(")
		begin := end - len(word)
		if url := strings.TrimRight(word, ".,;:!?)"); slices.Contains(urls, url) {
			if begin > done {
				pieces = append(pieces, Piece{Text: text[done:begin]})
			}
			done = begin + len(url)
			pieces = append(pieces, Piece{Text: url, URL: true})
		}
		_, space := utf8.DecodeRuneInString(text[end:])
		at = end + space
	}
	if done < len(text) {
		pieces = append(pieces, Piece{Text: text[done:]})
	}
	return pieces
}

func startsWithSpace(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.IsSpace(r)
}

// Linked is Text for a text with addresses, which link shows. The punctuation behind an address is not
// escaped, because it could become part of it. An address that does not fit is omitted.
func Linked(pieces []Piece, limit int, escape Escape, link func(url string) string) string {
	var b strings.Builder
	for i, p := range pieces {
		var shown string
		switch {
		case p.URL:
			if shown = link(p.Text); Length(shown) >= limit {
				return b.String() + ellipsis
			}
		case i > 0 && pieces[i-1].URL:
			tail := len(p.Text) - len(strings.TrimLeft(p.Text, ".,;:!?)"))
			if tail >= limit {
				return b.String() + ellipsis
			}
			shown = p.Text[:tail] + Text(p.Text[tail:], limit-tail, escape)
		default:
			shown = Text(p.Text, limit, escape)
		}
		b.WriteString(shown)
		isCut := strings.HasSuffix(shown, ellipsis) && !strings.HasSuffix(p.Text, ellipsis)
		if limit -= Length(shown); limit <= 0 || isCut {
			break
		}
	}
	return b.String()
}
