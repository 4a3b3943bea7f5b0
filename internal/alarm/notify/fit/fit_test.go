package fit_test

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

func double(r rune) string { return string([]rune{r, r}) }

func TestTextIsCutBetweenWholeEscapes(t *testing.T) {
	for name, tc := range map[string]struct {
		in     string
		limit  int
		escape fit.Escape
		want   string
	}{
		"short":                   {"봉수", 2, nil, "봉수"},
		"long":                    {"signal fires", 7, nil, "signal…"},
		"escaped, just fits":      {"abc", 6, double, "aabbcc"},
		"an escape is not cut":    {"abc", 5, double, "aabb…"},
		"two units":               {"🔥🔥", 3, nil, "🔥…"},
		"control characters":      {"a\x1b[0m\u202e", 9, nil, "a[0m"},
		"no room but for the end": {"signal", 1, nil, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fit.Text(tc.in, tc.limit, tc.escape); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := fit.Line("a\r\n b", 9, nil); got != "a b" {
		t.Errorf("a line is %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a🔥", 2)
	f.Add(strings.Repeat("&", 20), 11)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + (limit&0xffff)%500
		if got := fit.Length(fit.Text(s, limit, double)); got > limit {
			t.Errorf("%d characters, of at most %d", got, limit)
		}
	})
}
