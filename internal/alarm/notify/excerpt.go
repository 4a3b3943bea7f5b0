package notify

import (
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits of an excerpt, and of the part of an answer that it is made of, in bytes.
const (
	maxExcerpt  = 200
	maxExamined = 1 << 10
)

// An excerpt contains no part of a text that has at least shortest bytes, and no whole text that has
// at least shortestText bytes.
const (
	shortest     = 8
	shortestText = 4
)

// omission replaces what an excerpt does not contain.
const omission = "[...]"

// Excerpt returns the beginning of an answer on one line, for SendError.Answer. It leaves out what
// the answer repeats of other texts, which can be secrets: each part of 8 bytes or more. Texts of 4
// to 7 bytes are left out as a whole. It is empty if the answer is a web page, or no text.
func Excerpt(answer []byte, omitted []string) string {
	answer = answer[:min(len(answer), maxExamined)]
	for range utf8.UTFMax - 1 { // a character can be cut
		if len(answer) > 0 && !utf8.Valid(answer) {
			answer = answer[:len(answer)-1]
		}
	}
	line := plaintext.Line(string(answer))
	if !utf8.Valid(answer) || strings.HasPrefix(line, "<") {
		return ""
	}
	return plaintext.Cut(omit(line, omitted), maxExcerpt)
}

// omit replaces the parts of a line that are parts of the texts.
func omit(line string, texts []string) string {
	hidden := hiddenBytes(line, texts)
	var shown strings.Builder
	for i := range len(line) {
		if !hidden[i] {
			shown.WriteByte(line[i])
		} else if i+1 == len(line) || !hidden[i+1] {
			shown.WriteString(omission)
		}
	}
	return strings.ToValidUTF8(shown.String(), "")
}

// hiddenBytes reports which bytes of a line belong to a part of one of the texts. It takes time in
// proportion to the length of the texts.
func hiddenBytes(line string, texts []string) []bool {
	hidden := make([]bool, len(line))
	parts := map[string][]int{} // where they begin in the line
	for n := shortestText; n <= shortest; n++ {
		for i := 0; i+n <= len(line); i++ {
			parts[line[i:i+n]] = append(parts[line[i:i+n]], i)
		}
	}
	hide := func(part string) {
		for _, at := range parts[part] {
			for i := range len(part) {
				hidden[at+i] = true
			}
		}
		delete(parts, part)
	}
	for _, text := range texts {
		for i := 0; i+shortest <= len(text); i++ {
			hide(text[i : i+shortest])
		}
		if len(text) < shortest {
			hide(text)
		}
	}
	return hidden
}
