package httppost_test

import (
	"net/http"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

func FuzzRetryAfter(f *testing.F) {
	f.Add("30", "")
	f.Add("Fri, 20 Nov 2026 19:02:00 GMT", "Fri, 20 Nov 2026 19:00:00 GMT")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, retryAfter, date string) {
		h := http.Header{"Retry-After": {retryAfter}, "Date": {date}}
		if got := httppost.RetryAfter(h); got < 0 {
			t.Errorf("Retry-After %q at %q gives %s", retryAfter, date, got)
		}
	})
}
