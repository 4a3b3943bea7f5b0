package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resultsOf reads the output of go test.
func resultsOf(t *testing.T, out io.Writer, output string) *results {
	t.Helper()
	r, err := read(out, strings.NewReader(strings.TrimPrefix(output, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOutput(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"a test that passes shows its summary, not its output": {
			in: `
{"Action":"output","Package":"a.io/p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"attr","Package":"a.io/p","Test":"TestA","Key":"summary","Value":"nothing lost"}
{"Action":"attr","Package":"a.io/p","Test":"TestA","Key":"other","Value":"x"}
{"Action":"pass","Package":"a.io/p","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"a.io/p","Output":"PASS\n"}
{"Action":"output","Package":"a.io/p","Output":"ok  \ta.io/p\t1.6s\n"}
{"Action":"pass","Package":"a.io/p","Elapsed":1.6}
`,
			want: "ok  \ta.io/p\t1.6s\np: TestA: nothing lost\n\nThe slowest tests:\n    1.5 s  p TestA\n",
		},
		"a test that fails shows its output": {
			in: `
{"Action":"output","Package":"a.io/p","Test":"TestA","Output":"    a_test.go:1: lost\n"}
{"Action":"fail","Package":"a.io/p","Test":"TestA","Elapsed":0.2}
{"Action":"output","Package":"a.io/p","Output":"exit status 1\n"}
{"Action":"output","Package":"a.io/p","Output":"FAIL\ta.io/p\t1.6s\n"}
{"Action":"fail","Package":"a.io/p","Elapsed":1.6}
`,
			want: "    a_test.go:1: lost\nexit status 1\nFAIL\ta.io/p\t1.6s\n\nFailed:\n  a.io/p TestA\n",
		},
		"a test that does not end shows its output": {
			in: `
{"Action":"output","Package":"a.io/p","Test":"TestA","Output":"panic: timed out\n"}
{"Action":"output","Package":"a.io/p","Output":"FAIL\ta.io/p\t1.6s\n"}
{"Action":"fail","Package":"a.io/p","Elapsed":1.6}
`,
			want: "panic: timed out\nFAIL\ta.io/p\t1.6s\n\nFailed:\n  a.io/p TestA\n",
		},
		"a package that does not compile": {
			in: `
{"ImportPath":"a.io/p [a.io/p.test]","Action":"build-output","Output":"p.go:1: undefined: x\n"}
{"ImportPath":"a.io/p [a.io/p.test]","Action":"build-fail"}
{"Action":"output","Package":"a.io/p","Output":"FAIL\ta.io/p [build failed]\n"}
{"Action":"fail","Package":"a.io/p","Elapsed":0,"FailedBuild":"a.io/p [a.io/p.test]"}
`,
			want: "p.go:1: undefined: x\nFAIL\ta.io/p [build failed]\n\nFailed:\n  a.io/p\n",
		},
		"a parallel subtest counts as its test, and cached tests do not count": {
			in: `
{"Action":"pass","Package":"a.io/p","Test":"TestA/slow","Elapsed":9}
{"Action":"pass","Package":"a.io/p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"a.io/p","Elapsed":9}
{"Action":"pass","Package":"a.io/q","Test":"TestB","Elapsed":20}
{"Action":"output","Package":"a.io/q","Output":"ok  \ta.io/q\t(cached)\n"}
{"Action":"pass","Package":"a.io/q","Elapsed":20}
{"Action":"output","Package":"a.io/none","Output":"?   \ta.io/none\t[no test files]\n"}
{"Action":"skip","Package":"a.io/none","Elapsed":0}
`,
			want: "\nok  \ta.io/q\t(cached)\n\nThe slowest tests:\n    9.0 s  p TestA\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			resultsOf(t, &out, tc.in).end()
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
