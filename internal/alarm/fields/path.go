// Package fields names fields of objects, keeps only these, and describes what changed in
// them. Objects are JSON values as encoding/json decodes them into any, with int64 for whole
// numbers. The package is pure.
package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path names fields of objects: names separated by dots. [*] after a name means all entries of
// a list or map, and ["KEY"] an entry of a map whose key is not a plain name. The path "."
// names the whole object. The path "*" names all top-level fields except apiVersion, kind,
// metadata and status.
type Path struct {
	steps []step
	// rest: it is the path "*".
	rest bool
}

// step is a name, or all entries.
type step struct {
	name string
	all  bool
}

const (
	// maxSteps limits the length of a path.
	maxSteps = 32
	whole    = "."
	rest     = "*"
)

// DefaultPath returns the path "*".
func DefaultPath() Path { return Path{rest: true} }

// Join builds the path of a field, given the names from the top level. Without names, it is the
// whole object. A name that Parse would not accept ends the path before it.
func Join(names ...string) Path {
	var p Path
	for i, name := range names {
		if i == maxSteps || i == 0 && !isName(name) || name == "" || strings.ContainsFunc(name, isControl) || !utf8.ValidString(name) {
			break
		}
		p.steps = append(p.steps, step{name: name})
	}
	return p
}

// Parse returns the path with this text. Its error says what is wrong, where, and what to do.
func Parse(text string) (Path, error) {
	switch text {
	case rest:
		return DefaultPath(), nil
	case whole:
		return Path{}, nil
	}
	var p Path
	for i := 0; i < len(text); {
		s, length, err := parseStep(text, i)
		if err != nil {
			return Path{}, err
		}
		p.steps = append(p.steps, s)
		i += length
	}
	if len(p.steps) == 0 || len(p.steps) > maxSteps {
		return Path{}, fmt.Errorf("a path has 1 to %d fields, and %q has %d: write a path such as spec.replicas", maxSteps, text, len(p.steps))
	}
	return p, nil
}

// parseStep parses the step at an offset, with the dot before it.
func parseStep(text string, at int) (s step, length int, err error) {
	left := text[at:]
	if strings.HasPrefix(left, "[*]") && at > 0 {
		return step{all: true}, len("[*]"), nil
	}
	if strings.HasPrefix(left, "[") && at > 0 {
		quoted, err := strconv.QuotedPrefix(left[1:])
		if err != nil || quoted[0] != '"' || !strings.HasPrefix(left[1+len(quoted):], "]") {
			return step{}, 0, fmt.Errorf(`column %d: after "[" comes * or a key in double quotes, and then "]"`, at+1)
		}
		key, err := strconv.Unquote(quoted)
		if err != nil || key == "" || strings.ContainsFunc(key, isControl) {
			return step{}, 0, fmt.Errorf("column %d: the key %s is empty or has control characters: correct it", at+1, quoted)
		}
		return step{name: key}, len(quoted) + len("[]"), nil
	}
	dot := 0
	if at > 0 {
		if left[0] != '.' {
			return step{}, 0, fmt.Errorf("column %d: unexpected %q: separate the names of fields by dots", at+1, left[:1])
		}
		dot = 1
	}
	name := left[dot:]
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name = name[:end]
	}
	if !isName(name) {
		return step{}, 0, fmt.Errorf("column %d: %q is not the name of a field: write names of letters and digits, or a key as [\"KEY\"]", at+dot+1, name)
	}
	return step{name: name}, dot + len(name), nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func isName(text string) bool {
	if text == "" {
		return false
	}
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '$' {
			return false
		}
	}
	return true
}

// String returns the text of the path, which Parse accepts.
func (p Path) String() string {
	switch {
	case p.rest:
		return rest
	case len(p.steps) == 0:
		return whole
	}
	var b strings.Builder
	for _, s := range p.steps {
		s.write(&b)
	}
	return b.String()
}

func (s step) write(b *strings.Builder) {
	switch {
	case s.all:
		b.WriteString("[*]")
	case !isName(s.name) && b.Len() > 0:
		b.WriteString("[" + strconv.Quote(s.name) + "]")
	default:
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
	}
}

// notInRest are the top-level fields that the path "*" does not name.
var notInRest = []string{"apiVersion", "kind", "metadata", "status"}

// noise are the fields of metadata that change with each write. Only their own paths name them.
var noise = []string{"resourceVersion", "generation"}

// isNoise reports whether the path names one of noise.
func (p Path) isNoise() bool {
	return len(p.steps) == 2 && p.steps[0].name == "metadata" && slices.Contains(noise, p.steps[1].name)
}

// Shape is a set of paths. The zero Shape contains nothing. It is immutable.
type Shape struct {
	// paths are sorted by their text. None includes another.
	paths []Path
}

// NewShape returns the set of these paths. Its time grows with their number, not faster.
func NewShape(paths ...Path) Shape {
	root, byText := treeOf(paths), map[string]Path{}
	for _, p := range paths {
		if !root.covers(p) {
			byText[p.String()] = p
		}
	}
	var kept []Path
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		kept = append(kept, byText[text])
	}
	return Shape{kept}
}

// ParseShape returns the shape with this text.
func ParseShape(text string) (Shape, error) {
	var paths []Path
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		p, err := Parse(line)
		if err != nil {
			return Shape{}, err
		}
		paths = append(paths, p)
	}
	return NewShape(paths...), nil
}

// String returns the texts of the paths, one in a line. Equal shapes have equal texts.
func (s Shape) String() string {
	texts := make([]string, 0, len(s.paths))
	for _, p := range s.paths {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "\n")
}

// Union returns the fields of all shapes.
func Union(shapes ...Shape) Shape {
	var paths []Path
	for _, s := range shapes {
		paths = append(paths, s.paths...)
	}
	return NewShape(paths...)
}

// noise returns the names of noise that the shape names.
func (s Shape) noise() (names []string) {
	for _, p := range s.paths {
		if p.isNoise() {
			names = append(names, p.steps[1].name)
		}
	}
	return names
}

// OnlyMetadata reports whether all fields are below metadata.
func (s Shape) OnlyMetadata() bool {
	return !slices.ContainsFunc(s.paths, func(p Path) bool { return p.rest || len(p.steps) == 0 || p.steps[0].name != "metadata" })
}

// OnlyConditions reports whether the shape reads nothing of the status but its conditions, and not the
// resourceVersion, which changes with the status.
func (s Shape) OnlyConditions() bool {
	return !slices.ContainsFunc(s.paths, func(p Path) bool {
		switch {
		case p.rest:
			return false
		case len(p.steps) == 0:
			return true
		case p.steps[0].name == "status":
			return len(p.steps) == 1 || p.steps[1].name != "conditions"
		default:
			return p.isNoise() && p.steps[1].name == "resourceVersion"
		}
	})
}

// identities are the fields that identify entries of a list. The first key that all entries
// have, and that is unique in both lists, matches entries. Only the first field of a key is
// required.
var identities = [][]string{
	{"name"}, {"type"}, {"key"}, {"containerPort", "protocol"}, {"port", "protocol"}, {"mountPath"}, {"devicePath"},
	{"ip"}, {"topologyKey", "whenUnsatisfiable"}, {"uid"}, {"host"}, {"path"}, {"name", "namespace", "kind"},
}
