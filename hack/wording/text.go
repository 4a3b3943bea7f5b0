package main

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line is one line of a file, without the marks of its comment.
type line struct {
	number int
	text   string
}

// passage is running text that ends where its last sentence ends: a paragraph, a
// heading, a list item, a table cell, or a name.
type passage struct {
	lines     []line
	lowercase bool // as messages and names of tests begin
	scope     scope
}

// scope is the set of rules that a passage must follow.
type scope int

const (
	allRules  scope = iota
	wordsOnly       // the banned words
	codeWords       // the banned words, and those that identifiers must not contain
)

func (p passage) text() string {
	var b strings.Builder
	for i, l := range p.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.text)
	}
	return b.String()
}

// lineAt returns the number of the line that contains an offset of text.
func (p passage) lineAt(offset int) int {
	for _, l := range p.lines {
		if offset <= len(l.text) {
			return l.number
		}
		offset -= len(l.text) + len("\n")
	}
	return p.lines[len(p.lines)-1].number
}

// notLanguage matches code, the targets of links, HTML tags and addresses in angle
// brackets, and an escaped bar.
var notLanguage = regexp.MustCompile("(?s)``.+?``|`[^`]+`|" +
	`\]\([^()\s]+(?:\s+"[^"]*")?\)|</?[A-Za-z][^<>\n]*>|\\\|`)

// mask replaces each span with as many x, so that it counts as one word and offsets
// remain valid.
func mask(text string) string {
	return notLanguage.ReplaceAllStringFunc(text, func(span string) string {
		return strings.Repeat("x", len(span))
	})
}

var (
	fence     = regexp.MustCompile("^\\s*(```+|~~~+)")
	heading   = regexp.MustCompile(`^#{1,6}\s+`)
	underline = regexp.MustCompile(`^\s*(=+|-{2,}|\*{3,})\s*$`)
	listItem  = regexp.MustCompile(`^\s*([-*+]|\d{1,3}[.)])\s+`)
	linkTo    = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+\S+$`)
	indented  = regexp.MustCompile(`^(\t|    | {2,3}[^-*+0-9 ])`)
)

// passages splits Markdown, or a comment in Go's format, into passages. It leaves out
// code blocks.
func passages(lines []line) []passage {
	var s scanner
	for _, l := range lines {
		s.scan(l)
	}
	s.flush()
	return s.found
}

// scanner holds what the lines so far mean for the next one.
type scanner struct {
	found  []passage
	open   []line // the passage that the next line may continue
	fence  string // the mark that ends the code block, or ""
	inList bool
}

func (s *scanner) scan(l line) {
	if s.inFence(l.text) {
		return
	}
	l.text = mark.ReplaceAllString(l.text, "")
	switch text := l.text; {
	case strings.TrimSpace(text) == "", underline.MatchString(text), linkTo.MatchString(text):
		s.flush()
	case len(s.open) == 0 && !s.inList && indented.MatchString(text):
		// A code block.
	case heading.MatchString(text):
		s.flush()
		s.inList = false
		s.add(l, heading.FindString(text))
		s.flush()
	case strings.HasPrefix(strings.TrimSpace(text), "|"):
		s.flush()
		s.addCells(l)
	case listItem.MatchString(text):
		s.flush()
		s.inList = true
		s.add(l, listItem.FindString(text))
	default:
		if len(s.open) == 0 {
			s.inList = s.inList && unicode.IsSpace(rune(text[0]))
		}
		s.add(l, "")
	}
}

// inFence reports whether a line belongs to a fenced code block.
func (s *scanner) inFence(text string) bool {
	found := fence.FindStringSubmatch(text)
	switch {
	case s.fence != "":
		if found != nil && strings.HasPrefix(found[1], s.fence) {
			s.fence = ""
		}
		return true
	case found != nil:
		s.flush()
		s.fence = found[1]
		return true
	}
	return false
}

// add appends a line without its prefix to the open passage.
func (s *scanner) add(l line, prefix string) {
	text := strings.TrimSpace(strings.TrimPrefix(l.text, prefix))
	s.open = append(s.open, line{l.number, text})
}

func (s *scanner) addCells(l line) {
	text := strings.TrimSpace(l.text)
	hidden := mask(text)
	for cell := range strings.SplitSeq(hidden, "|") {
		if strings.Trim(cell, "-: ") != "" {
			s.add(line{l.number, text[:len(cell)]}, "")
			s.flush()
		}
		text = text[min(len(text), len(cell)+len("|")):]
	}
}

func (s *scanner) flush() {
	if len(s.open) > 0 {
		s.found = append(s.found, passage{lines: s.open})
		s.open = nil
	}
}

// sentences yields each sentence of a text with its offset.
func sentences(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		start := 0
		for i := range len(text) {
			if i < start || !endsSentence(text[start:], i-start) {
				continue
			}
			end := i + len(text[i:]) - len(strings.TrimLeft(text[i:], enders+closers))
			if !yieldTrimmed(yield, start, text[start:end]) {
				return
			}
			start = end
		}
		yieldTrimmed(yield, start, text[start:])
	}
}

func yieldTrimmed(yield func(int, string) bool, start int, text string) bool {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	start += len(text) - len(trimmed)
	trimmed = strings.TrimRightFunc(trimmed, unicode.IsSpace)
	return trimmed == "" || yield(start, trimmed)
}

const (
	enders  = ".?!"
	closers = "\"'`)]}*_”’»"
)

// Abbreviations whose dot never ends a sentence, and those whose dot does so if a
// capital follows.
var (
	abbreviations = []string{"e.g", "i.e", "vs", "cf", "approx", "resp", "incl", "mr", "mrs", "dr"}
	mayEnd        = []string{"etc", "a.m", "p.m", "inc", "ltd", "al"}
)

// endsSentence reports whether the byte at i is the first of those that end a sentence
// which begins at the start of text.
func endsSentence(text string, i int) bool {
	if !strings.ContainsRune(enders, rune(text[i])) || i == 0 {
		return false
	}
	marks := text[i:]
	rest := strings.TrimLeft(marks, enders+closers)
	marks = marks[:len(marks)-len(rest)]
	next := strings.TrimLeftFunc(rest, unicode.IsSpace)
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	switch {
	case rest != "" && next == rest: // within a word, as in 1.26 and example.com
		return false
	case unicode.IsSpace(before), strings.ContainsRune(enders, before), isQuoted(before, marks):
		return false
	case strings.HasPrefix(marks, ".."):
		return beginsCapital(next)
	case text[i] != '.':
		return true
	}
	word := strings.ToLower(lastWord(text[:i]))
	switch {
	case slices.Contains(abbreviations, word):
		return false
	case slices.Contains(mayEnd, word):
		return beginsCapital(next)
	}
	return strings.Trim(text[:i], "0123456789 ") != "" // else the number of a step
}

// isQuoted reports whether a mark stands alone between quotes, as in "?".
func isQuoted(before rune, marks string) bool {
	return strings.ContainsRune("\"'`“‘", before) && strings.ContainsAny(marks, "\"'`”’")
}

func beginsCapital(text string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, "\"'`([“‘*_"))
	return text == "" || unicode.IsUpper(first)
}

func lastWord(text string) string {
	start := strings.LastIndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && r != '.'
	})
	return text[start+1:]
}

// countWords counts what is between blanks and has a letter or a digit.
func countWords(sentence string) int {
	count := 0
	for field := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(field, isWordRune) {
			count++
		}
	}
	return count
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}
