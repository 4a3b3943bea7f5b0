package diagnosis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWordsHidesNames(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"none":                      {`no space left on device`, `no space left on device`},
		"a quoted name":             {`secret "no such host" not found`, `secret "xxxxxxxxxxxx" not found`},
		"a quote in a quoted text":  {`exec: \"a b\": not found`, `exec: \"xxx\": not found`},
		"two kinds of quotes":       {"a `b` didn't 'c' can't", "a `x` didn't 'x' can't"},
		"an image":                  {`docker.io/library/denied:timeout: not found`, `xxxxxx.xx/xxxxxxx/xxxxxx:xxxxxxx: not found`},
		"an image without registry": {`manifest for denied:v1 not found`, `manifest for xxxxxx:xx not found`},
		"a digest":                  {`layer sha256:403a: EOF`, `layer xxxxxx:xxxx: EOF`},
		"an address":                {`dial tcp 10.0.4.3:403: i/o timeout`, `dial tcp xx.x.x.x:xxx: i/o timeout`},
		"a host":                    {`lookup denied on dns.example: no such host`, `lookup xxxxxx on xxx.xxxxxxx: no such host`},
		"a name like a word":        {`name a-lookup was not found`, `name a-lookup was not found`},
		"a path":                    {`mkdir /a/no-space: denied`, `mkdir /x/xx-xxxxx: denied`},
		"a taint":                   {`untolerated taint {anti-affinity: a b}`, `untolerated taint {xxxx-xxxxxxxx:xxxx}`},
		"an identifier":             {`api error InvalidVolume.NotFound: x`, `api error InvalidVolume.NotFound: x`},
		"a kind of the API":         {`storageclass.storage.k8s.io "a" not found`, `storageclass.storage.k8s.io "x" not found`},
		"other alphabets":           {`key "ſé" x`, `key "xxxx" x`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, words(tc.text)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMatchPrefersTheInnermostError(t *testing.T) {
	rules := []rule{
		{text: compile(`authorize`), message: "denied"},
		{text: compile(`code = Aborted`), message: "aborted"},
		{text: compile(`mkdir (\S+): no space`), message: "no space for ${1}"},
		{text: compile(`timeout|no space`), message: "late"},
	}
	for name, tc := range map[string]struct{ text, want string }{
		"one error":                  {`cannot authorize`, "denied"},
		"an inner error":             {`failed to authorize: dial tcp 10.0.0.1:443: i/o timeout`, "late"},
		"no rule for the inner":      {`failed to authorize: unable to read the token: EOF`, "denied"},
		"a code":                     {`rpc error: code = Aborted desc = failed to wait: busy`, "aborted"},
		"an error in a code":         {`rpc error: code = Aborted desc = failed to wait: timeout`, "late"},
		"an operation with its name": {`failed to store: mkdir /timeout: no space left on device`, "no space for /timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := match(rules, tc.text); got.message != tc.want {
				t.Errorf("got %q, want %q", got.message, tc.want)
			}
		})
	}
}

func TestUsefulEndOfALongText(t *testing.T) {
	const inner = `mount "/a": not a directory`
	long := "failed to start: error mounting " + strings.Repeat("/very/long", 60) + ": " + inner
	if got := usefulEnd(long); got != inner {
		t.Errorf("got %q", got)
	}
	if got := usefulEnd("failed to start: " + inner); got != "failed to start: "+inner {
		t.Errorf("got %q", got)
	}
}
