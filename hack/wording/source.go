package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// extract returns the passages of a file. Its name, or a first line such as #!/bin/sh,
// shows the format. A file of an unknown format has no passages.
func extract(name string, content []byte) ([]passage, error) {
	switch base, ext := path.Base(name), path.Ext(name); {
	case ext == ".go":
		return goPassages(name, content)
	case ext == ".md":
		return markdownPassages(base, content), nil
	case ext == ".yaml", ext == ".yml", ext == ".tpl":
		return append(hashPassages(content, noMessages), valuePassages(content)...), nil
	case ext == ".json":
		return valuePassages(content), nil
	case ext == ".sh", ext == ".mk", base == "Makefile", bytes.HasPrefix(content, []byte("#!")):
		return hashPassages(content, shellMessages), nil
	case base == "Dockerfile", ext == ".toml", strings.HasPrefix(base, "."):
		return hashPassages(content, noMessages), nil
	}
	return nil, nil
}

// htmlComment matches a comment in Markdown, which readers of the page do not see.
var htmlComment = regexp.MustCompile(`(?s)<!--.*?-->`)

// markdownPassages returns the text of a page. It leaves out quotes in a changelog.
func markdownPassages(base string, content []byte) []passage {
	lines := splitLines(string(blank(htmlComment, content)), 1, 1)
	for i, l := range lines {
		if quote, ok := strings.CutPrefix(strings.TrimSpace(l.text), ">"); ok {
			lines[i].text = strings.TrimSpace(quote)
			if base == "CHANGELOG.md" {
				lines[i].text = ""
			}
		}
	}
	return passages(lines)
}

// blank replaces each match by blanks. The lines keep their numbers.
func blank(pattern *regexp.Regexp, content []byte) []byte {
	return pattern.ReplaceAllFunc(content, func(match []byte) []byte {
		return bytes.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, match)
	})
}

// splitLines numbers the lines of a text, from number on in the given steps.
func splitLines(text string, number, step int) []line {
	var lines []line
	for t := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line{number, t})
		number += step
	}
	return lines
}

// goPassages returns the comments, the messages and the declared identifiers in a Go file.
// In a test, it returns the names of the test cases, and every other string for its words.
func goPassages(name string, content []byte) ([]passage, error) {
	f := goFile{fset: token.NewFileSet(), names: map[*ast.BasicLit]bool{}}
	file, err := parser.ParseFile(f.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	for _, group := range file.Comments {
		f.addComment(group)
	}
	visit := f.visitCode
	if strings.HasSuffix(name, "_test.go") {
		visit = f.visitTest
	}
	ast.Inspect(file, visit)
	ast.Inspect(file, f.visitDeclaration)
	return f.found, nil
}

// goFile collects the passages of a Go file.
type goFile struct {
	fset  *token.FileSet
	found []passage
	names map[*ast.BasicLit]bool // of test cases
}

func (f *goFile) lineOf(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

var (
	// directive matches a comment for a tool. A reason may follow, as in
	// "//nolint:noctx // the process outlives it".
	directive = regexp.MustCompile(`^//[a-z0-9]+:\S+`)
	// markerMessage matches the message of a validation rule.
	markerMessage = regexp.MustCompile(`\bmessage=("(?:[^"\\]|\\.)*")`)
)

func (f *goFile) addComment(group *ast.CommentGroup) {
	var lines []line
	for _, comment := range group.List {
		number := f.lineOf(comment)
		if block, ok := strings.CutPrefix(comment.Text, "/*"); ok {
			lines = append(lines, splitLines(strings.TrimSuffix(block, "*/"), number, 1)...)
			continue
		}
		text := strings.TrimPrefix(comment.Text[len("//"):], " ")
		switch {
		case directive.MatchString(comment.Text):
			_, text, _ = strings.Cut(text, "// ")
		case strings.HasPrefix(text, "+"):
			f.addMarker(number, text)
			text = ""
		}
		lines = append(lines, line{number, text})
	}
	f.found = append(f.found, passages(lines)...)
}

func (f *goFile) addMarker(number int, text string) {
	if m := markerMessage.FindStringSubmatch(text); m != nil {
		f.addMessage([]line{{number, unquote(m[1])}})
	}
}

// visitCode collects the string literals of code. Those that are concatenated are one
// text, in which an x stands for a value.
func (f *goFile) visitCode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field: // its tag is for a machine
		ast.Inspect(n.Type, f.visitCode)
		return false
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return true
		}
		var lines []line
		f.concatenate(n, &lines)
		f.addMessage(lines)
		return false
	case *ast.CallExpr:
		if fun, ok := n.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "MustCompile" {
			return false // a regular expression
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			f.addMessage(f.literal(n))
		}
	}
	return true
}

// concatenate appends the text of an operand to lines.
func (f *goFile) concatenate(operand ast.Expr, lines *[]line) {
	var next []line
	switch n := operand.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			f.concatenate(n.X, lines)
			f.concatenate(n.Y, lines)
			return
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			next = f.literal(n)
		}
	}
	if next == nil {
		ast.Inspect(operand, f.visitCode)
		next = []line{{f.lineOf(operand), "x"}}
	}
	if last := len(*lines) - 1; last >= 0 && (*lines)[last].number == next[0].number {
		(*lines)[last].text += next[0].text
		next = next[1:]
	}
	*lines = append(*lines, next...)
}

// literal returns the lines of a string. Those of an escaped line feed are all in the
// line of the literal.
func (f *goFile) literal(lit *ast.BasicLit) []line {
	step := 0
	if strings.HasPrefix(lit.Value, "`") {
		step = 1
	}
	return splitLines(unquote(lit.Value), f.lineOf(lit), step)
}

// visitTest collects the names of test cases: the keys of a table, and the names that
// t.Run gets. Other strings are often data, so only their words are checked.
func (f *goFile) visitTest(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BasicLit:
		f.addWords(n)
	case *ast.CompositeLit:
		if table, ok := n.Type.(*ast.MapType); ok && !isBasic(table.Value) {
			for _, element := range n.Elts {
				if testCase, ok := element.(*ast.KeyValueExpr); ok {
					f.addName(testCase.Key)
				}
			}
		}
	case *ast.CallExpr:
		if fun, ok := n.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "Run" && len(n.Args) == 2 {
			f.addName(n.Args[0])
		}
	}
	return true
}

// isBasic reports whether the values of a map are too simple for a table of test cases:
// its keys are inputs then.
func isBasic(value ast.Expr) bool {
	name, ok := value.(*ast.Ident)
	return ok && basicTypes[name.Name]
}

var basicTypes = map[string]bool{
	"any": true, "bool": true, "byte": true, "error": true, "float64": true, "int": true, "int32": true, "int64": true, "string": true,
}

func (f *goFile) addName(key ast.Expr) {
	if lit, ok := key.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		f.names[lit] = true
		f.found = append(f.found, passage{lines: f.literal(lit), lowercase: true})
	}
}

// addWords adds a string that is no name of a test case.
func (f *goFile) addWords(lit *ast.BasicLit) {
	if lit.Kind != token.STRING || f.names[lit] {
		return
	}
	for _, p := range messagePassages(f.literal(lit)) {
		p.scope = wordsOnly
		f.found = append(f.found, p)
	}
}

// visitDeclaration collects the identifiers that the file declares. Others are declared in
// another file, or by a library.
func (f *goFile) visitDeclaration(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.File:
		f.addIdentifier(n.Name)
	case *ast.FuncDecl:
		f.addIdentifier(n.Name)
	case *ast.TypeSpec:
		f.addIdentifier(n.Name)
	case *ast.ValueSpec:
		for _, name := range n.Names {
			f.addIdentifier(name)
		}
	case *ast.Field:
		for _, name := range n.Names {
			f.addIdentifier(name)
		}
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if n.Tok == token.DEFINE {
				f.addIdentifier(left)
			}
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			f.addIdentifier(n.Key)
			f.addIdentifier(n.Value)
		}
	}
	return true
}

// wordEnd matches the end of a word in an identifier, such as HTTPClientOf or max_size.
var wordEnd = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])|_`)

// addIdentifier adds the words of a declared identifier, such as "old Name" for oldName.
func (f *goFile) addIdentifier(declared ast.Expr) {
	if name, ok := declared.(*ast.Ident); ok {
		words := wordEnd.ReplaceAllString(wordEnd.ReplaceAllString(name.Name, "$1$3 $2$4"), "$1$3 $2$4")
		f.found = append(f.found, passage{lines: []line{{f.lineOf(name), words}}, scope: codeWords})
	}
}

// minMessageWords is the least number of words in a string that people read.
const minMessageWords = 2

// notProse matches the beginning of SQL, XML, JSON and YAML.
var notProse = regexp.MustCompile(`^\s*((SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|PRAGMA) |<|[{\[]"|(apiVersion|kind|spec|metadata): )`)

func (f *goFile) addMessage(lines []line) {
	f.found = append(f.found, messagePassages(lines)...)
}

// messagePassages returns the passages of a string that people read.
func messagePassages(lines []line) []passage {
	whole := passage{lines: lines}
	text := whole.text()
	if countWords(mask(text)) < minMessageWords || notProse.MatchString(text) {
		return nil
	}
	if one := strings.TrimSpace(text); !strings.Contains(one, "\n") { // no code block, even if it is indented
		lines = []line{{whole.lineAt(strings.Index(text, one)), one}}
	}
	found := passages(lines)
	if len(found) > 0 && !strings.HasPrefix(text, " ") { // else it continues another message
		found[0].lowercase = true
	}
	return found
}

func unquote(literal string) string {
	text, err := strconv.Unquote(literal)
	if err != nil {
		return strings.Trim(literal, `"'`)
	}
	return text
}

// templateComment matches a comment of a Helm template.
var templateComment = regexp.MustCompile(`(?s)\{\{-?\s*/\*(.*?)\*/\s*-?\}\}`)

// hashPassages returns the comments that begin with # and those of templates. From the
// code before a comment, it takes the messages that a function returns.
func hashPassages(content []byte, messages func(code string) []string) []passage {
	var found []passage
	for _, at := range templateComment.FindAllSubmatchIndex(content, -1) {
		comment := splitLines(string(content[at[2]:at[3]]), lineOf(content, at[2]), 1)
		found = append(found, passages(comment)...)
	}
	var block []line // comments on lines of their own
	for _, l := range splitLines(string(blank(templateComment, content)), 1, 1) {
		code, comment := cutComment(l.text)
		for _, message := range messages(code) {
			found = append(found, messagePassages([]line{{l.number, message}})...)
		}
		own := line{l.number, comment}
		if strings.TrimSpace(code) == "" {
			block = append(block, own)
			continue
		}
		found = append(found, passages(block)...)
		found = append(found, passages([]line{own})...)
		block = nil
	}
	return append(found, passages(block)...)
}

// cutComment cuts a line where a comment begins: at a # that is not quoted and follows
// a blank.
func cutComment(text string) (code, comment string) {
	if strings.HasPrefix(text, "#!") {
		return "", ""
	}
	quote, before := ' ', ' '
	for i, c := range text {
		switch {
		case quote != ' ':
			if c == quote {
				quote = ' '
			}
		case c == '\'', c == '"':
			quote = c
		case c == '#' && (before == ' ' || before == '\t'):
			comment = strings.TrimLeft(text[i:], "#@") // also "##" and "##@" of a Makefile
			return text[:i], strings.TrimPrefix(comment, " ")
		}
		before = c
	}
	return text, ""
}

var (
	prints = regexp.MustCompile(`\b(echo|printf|die|fail|step|skip)\b`)
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
)

// shellMessages returns the strings in a line of a shell script that prints.
func shellMessages(code string) []string {
	if !prints.MatchString(code) {
		return nil
	}
	var found []string
	for _, text := range quoted.FindAllString(code, -1) {
		found = append(found, text[1:len(text)-1])
	}
	return found
}

func noMessages(string) []string { return nil }

// Values that people read: in quotes, or up to the next line that is not indented
// deeper than its key.
var (
	quotedValue = regexp.MustCompile(`\b(?:description|summary|message|messageExpression)"?:\s+("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')`)
	plainValue  = regexp.MustCompile(`^(\s*(?:- )?)(?:description|summary|message):\s+(?:[|>][-+]?$|([^"'\s{\[].*)$)`)
)

// valuePassages returns the descriptions, summaries and messages in YAML or JSON.
func valuePassages(content []byte) []passage {
	var found []passage
	for _, at := range quotedValue.FindAllSubmatchIndex(content, -1) {
		text := string(content[at[2]+1 : at[3]-1])
		found = append(found, messagePassages(splitLines(text, lineOf(content, at[2]), 1))...)
	}
	var block []line
	depth := 0
	for _, l := range splitLines(string(content), 1, 1) {
		text := strings.TrimSpace(l.text)
		if block != nil && len(l.text)-len(strings.TrimLeft(l.text, " ")) > depth {
			block = append(block, line{l.number, text})
			continue
		}
		found = append(found, messagePassages(block)...)
		block = nil
		if m := plainValue.FindStringSubmatch(l.text); m != nil {
			depth = len(m[1])
			block = []line{{l.number, m[2]}}
		}
	}
	return append(found, messagePassages(block)...)
}
