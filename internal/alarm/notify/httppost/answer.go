package httppost

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// textsOf returns the texts of a request that an excerpt of the answer must not contain, in the
// forms in which servers repeat them. The names of fields in the body are not among them: an
// answer says which field is wrong.
func textsOf(r Request) []string {
	texts := withParts(nil, r.URL)
	if u, err := url.Parse(r.URL); err == nil && u.User != nil { // net/http sends it as a header
		password, _ := u.User.Password()
		login := u.User.Username() + ":" + password
		texts = withParts(texts, base64.StdEncoding.EncodeToString([]byte(login)))
		texts = append(withParts(texts, login), password)
	}
	for name, values := range r.Header {
		if name == "Content-Type" {
			continue
		}
		for _, value := range values {
			texts = withParts(texts, value)
			if basic, found := strings.CutPrefix(value, "Basic "); found {
				decoded, _ := base64.StdEncoding.DecodeString(basic)
				_, password, _ := strings.Cut(string(decoded), ":")
				texts = append(withParts(texts, string(decoded)), password)
			}
		}
	}
	var body any
	if json.Unmarshal(r.Body, &body) != nil {
		return formsOf(texts, string(r.Body))
	}
	return appendStrings(texts, body)
}

// withParts appends a text, and its parts: a short secret is left out only as a whole.
func withParts(texts []string, text string) []string {
	texts = formsOf(texts, text)
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(" /?&=:@,;", c) }) {
		texts = formsOf(texts, part)
	}
	return texts
}

// formsOf appends a text with and without the escapes of URLs, and with those of JSON.
func formsOf(texts []string, text string) []string {
	unescaped, err := url.QueryUnescape(text)
	if err != nil {
		unescaped = text
	}
	for _, form := range []string{text, unescaped} {
		texts = append(texts, form, url.QueryEscape(form), url.PathEscape(form), strings.ReplaceAll(form, "/", `\/`))
	}
	return texts
}

// appendStrings appends the strings in a JSON value, without the names of fields.
func appendStrings(texts []string, value any) []string {
	switch value := value.(type) {
	case string:
		texts = append(texts, value)
	case []any:
		for _, element := range value {
			texts = appendStrings(texts, element)
		}
	case map[string]any:
		for _, field := range value {
			texts = appendStrings(texts, field)
		}
	}
	return texts
}
