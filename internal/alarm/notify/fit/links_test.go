package fit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyWholeWordsAreAddresses(t *testing.T) {
	const url = "https://wiki.example.com"
	for name, tc := range map[string]struct {
		text string
		want []string // the addresses are in brackets
	}{
		"alone":                    {url, []string{"[" + url + "]"}},
		"in a text":                {"see " + url + " now", []string{"see ", "[" + url + "]", " now"}},
		"at the end of a sentence": {"see (" + url + ").\nnext", []string{"see (", "[" + url + "]", ").\nnext"}},
		"twice":                    {url + " " + url, []string{"[" + url + "]", " ", "[" + url + "]"}},
		"a longer host":            {url + ".evil.org", []string{url + ".evil.org"}},
		"a longer path":            {url + "/x", []string{url + "/x"}},
		"a user":                   {url + "@evil.org", []string{url + "@evil.org"}},
		"in another":               {"https://evil.org/?" + url, []string{"https://evil.org/?" + url}},
		"as markup":                {"[x](" + url + ")", []string{"[x](" + url + ")"}},
		"nothing":                  {"", nil},
		"spaces":                   {"  a  ", []string{"  a  "}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range Pieces(tc.text, []string{url}) {
				if p.URL {
					p.Text = "[" + p.Text + "]"
				}
				got = append(got, p.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATextWithAddressesKeepsItsLimit(t *testing.T) {
	const url = "https://a.example.com"
	pieces := Pieces("a.b "+url+". and "+strings.Repeat("x", 20), []string{url})
	escape := func(r rune) string { return "\\" + string(r) }
	link := func(url string) string { return "<" + url + ">" }
	for limit := 1; limit < 100; limit++ {
		got := Linked(pieces, limit, escape, link)
		if Length(got) > limit {
			t.Errorf("limit %d: %q has %d", limit, got, Length(got))
		}
		if strings.Contains(got, "https") && !strings.Contains(got, "<"+url+">") {
			t.Errorf("limit %d: the address is cut: %q", limit, got)
		}
	}
	if got, want := Linked(pieces, 100, escape, link), `\a\.\b\ <https://a.example.com>.\ \a\n\d\ `; !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
}
