package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const (
	// maxText limits the text of a value, in characters.
	maxText = 80
	// maxScan is how many bytes of a value are read for its text.
	maxScan = 1024
	// context is how many characters are shown before the first difference of long texts.
	context = 20
	// maxDescribed limits how many differences Describe shows.
	maxDescribed = 5
	// maxWords limits the parts of a subject.
	maxWords = 8
)

// kind distinguishes fields of maps and entries of lists.
type kind int

const (
	field kind = iota
	// keyEntry, indexEntry and scalarEntry are entries that are found by a unique key, by their
	// index, and by their value.
	keyEntry
	indexEntry
	scalarEntry
)

// place is a field, or an entry of a list.
type place struct {
	key  string
	kind kind
}

// nouns are the names of entries of well-known lists, and of keys of well-known maps.
var nouns = map[string]string{ //nolint:gosec // no credentials: names of fields
	"containers": "container", "initContainers": "init container", "ephemeralContainers": "ephemeral container",
	"volumes": "volume", "env": "env", "volumeMounts": "mount", "volumeDevices": "device", "ports": "port",
	"conditions": "condition", "containerStatuses": "container", "initContainerStatuses": "init container",
	"tolerations": "toleration", "ownerReferences": "owner", "subjects": "subject", "webhooks": "webhook",
	"volumeClaimTemplates": "volume claim template", "imagePullSecrets": "image pull secret",
	"labels": "label", "annotations": "annotation", "limits": "limit", "requests": "request",
}

// mapNouns are nouns whose entries are keys of maps.
var mapNouns = []string{"labels", "annotations", "limits", "requests"}

// prefixes are paths that a subject does not repeat, the longest first.
var prefixes = [][]string{{"spec", "jobTemplate", "spec", "template", "spec"}, {"spec", "template", "spec"}, {"spec"}}

// owners are plain words for paths before an entry in nouns.
var owners = map[string]string{
	"metadata": "", "status": "", "resources": "",
	"template.metadata": "the pod template", "jobTemplate.spec.template.metadata": "the pod template",
}

// implied are the fields that are meant if only the entry is named.
var implied = map[string]string{"env": "value", "conditions": "status"}

// subject returns a place in plain words, for example "image of container web".
func subject(places []place) string {
	places = withoutPrefix(places)
	if last := len(places) - 1; last > 0 && places[last].kind == scalarEntry {
		places = places[:last]
	}
	var words []string // the outermost first
	start, list := 0, ""
	for i := 0; i+1 < len(places) && len(words) < maxWords; i++ {
		noun := nounOf(places[i], places[i+1])
		if noun == "" {
			continue
		}
		if owner := ownerText(places[start:i]); owner != "" {
			words = append(words, owner)
		}
		words = append(words, noun)
		list = places[i].key
		i++
		start = i + 1
	}
	if rest := fieldText(places[start:]); rest != "" && rest != implied[list] {
		words = append(words, rest)
	}
	slices.Reverse(words)
	return plaintext.Cut(strings.Join(words, " of "), maxField)
}

func withoutPrefix(places []place) []place {
	for _, prefix := range prefixes {
		if len(places) > len(prefix) && slices.EqualFunc(places[:len(prefix)], prefix, func(p place, key string) bool {
			return p == place{key: key}
		}) {
			return places[len(prefix):]
		}
	}
	return places
}

// nounOf returns plain words for an entry of a well-known list or map, or an empty text.
func nounOf(list, entry place) string {
	noun := nouns[list.key]
	key := plaintext.Line(plaintext.Cut(entry.key, maxKey))
	switch {
	case noun == "" || list.kind != field || key == "":
		return ""
	case list.key == "limits" || list.key == "requests":
		return key + " " + noun
	case entry.kind == keyEntry, entry.kind == field && slices.Contains(mapNouns, list.key):
		return noun + " " + key
	case entry.kind == indexEntry:
		return fieldText([]place{list, entry})
	}
	return ""
}

func ownerText(places []place) string {
	text := fieldText(places)
	if words, ok := owners[text]; ok {
		return words
	}
	return text
}

// shortTexts returns the texts of two values, and whether they are hidden because they may
// be secret. It reduces long texts to the first lines that differ, and to the parts that do.
func shortTexts(before, after any) (from, to string, isHidden bool) {
	if isSecretText(before) || isSecretText(after) {
		return "", "", true
	}
	from, to = valueText(before), valueText(after)
	if before == nil || after == nil {
		return cut(from, 0), cut(to, 0), false
	}
	common := commonPrefix(from, to)
	start := strings.LastIndexByte(from[:common], '\n') + 1
	return cut(from[start:], common-start), cut(to[start:], common-start), false
}

// commonPrefix returns how many bytes two texts have in common, without a part of a
// character.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}

// cut returns the first line of a text, safe to print, with at most maxText characters. A
// longer line begins shortly before a byte that differs.
func cut(s string, different int) string {
	line, _, more := strings.Cut(s, "\n")
	if utf8.RuneCountInString(line) > maxText && different > maxText/2 {
		from := min(different, len(line)) - context
		for from > 0 && !utf8.RuneStart(line[from]) {
			from--
		}
		line = "…" + line[from:]
	}
	line = plaintext.Line(plaintext.Cut(line, maxScan))
	if more {
		line += "…"
	}
	return plaintext.CutRunes(line, maxText)
}

// valueText returns a scalar, or the start of the JSON of a map or list without secrets.
func valueText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	e := encoder{limit: maxScan}
	e.value(value, 0)
	return string(e.out)
}

// Describe returns one line for people, for example "image of container web: web:1.4 ->
// web:1.5, replicas: 3 -> 5". It shows at most five differences, and the number of the
// others. It does not escape markup.
func Describe(found []Difference, more int) string {
	var parts []string
	for i := range found[:min(len(found), maxDescribed)] {
		parts = append(parts, found[i].String())
	}
	if more += len(found) - len(parts); more > 0 && len(parts) > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(parts, ", "), more)
	}
	return strings.Join(parts, ", ")
}

// String returns the difference in plain words.
func (d Difference) String() string {
	state := "changed"
	switch {
	case d.Added && d.Entry:
		state = "added"
	case d.Removed && d.Entry:
		state = "removed"
	}
	value := d.From + d.To // one of them is empty
	switch {
	case d.Entry && (d.Hidden || strings.HasPrefix(value, "{")):
		return d.Subject + " " + state
	case d.Entry:
		return d.Subject + ": " + value + " " + state
	case d.Hidden, d.From == d.To && !d.Added && !d.Removed:
		return d.Subject + " changed"
	case d.Added:
		return d.Subject + ": set to " + orQuotes(d.To)
	case d.Removed:
		return d.Subject + ": " + orQuotes(d.From) + " -> unset"
	}
	return d.Subject + ": " + orQuotes(d.From) + " -> " + orQuotes(d.To)
}

// orQuotes shows an empty text.
func orQuotes(text string) string { return cmp.Or(text, `""`) }
