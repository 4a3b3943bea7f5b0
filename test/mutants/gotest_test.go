package main

import (
	"strings"
	"testing"
)

// The events are of real runs of Go 1.26.
func TestWhatBecameOfATest(t *testing.T) {
	const (
		packagePass = `{"Action":"output","Package":"x","Output":"ok  \tx\t0.003s\n"}` + "\n" + `{"Action":"pass","Package":"x"}`
		packageFail = `{"Action":"fail","Package":"x"}`
		noTests     = `{"Action":"output","Package":"x","Output":"testing: warning: no tests to run\n"}` + "\n" + packagePass
		testPass    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"x","Test":"TestA"}`
		testSkip    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"skip","Package":"x","Test":"TestA"}`
		testFail    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"x","Test":"TestA"}`
		buildFail   = `{"ImportPath":"x","Action":"build-output","Output":"x.go:1:1: undefined: y\n"}` + "\n" +
			`{"ImportPath":"x","Action":"build-fail"}` + "\n" + `{"Action":"fail","Package":"x","FailedBuild":"x"}`
	)
	for name, tc := range map[string]struct {
		events []string
		want   outcome
	}{
		"passed":                      {[]string{testPass, packagePass}, passed},
		"failed":                      {[]string{testFail, packageFail}, failed},
		"one of two failed":           {[]string{testFail, testPass, packageFail}, failed},
		"the process died":            {[]string{packageFail}, failed},
		"no test has the name":        {[]string{noTests}, notRun},
		"all are skipped":             {[]string{testSkip, packagePass}, notRun},
		"does not compile":            {[]string{buildFail}, noBuild},
		"one of two does not compile": {[]string{testFail, packageFail, buildFail}, noBuild},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := judgeEvents(strings.NewReader(strings.Join(tc.events, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("outcome = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhatIsPrintedIsKept(t *testing.T) {
	_, printed, err := judgeEvents(strings.NewReader(`{"Action":"output","Output":"a\n"}{"Action":"build-output","Output":"b\n"}`))
	if err != nil || printed != "a\nb\n" {
		t.Errorf("printed %q, %v", printed, err)
	}
}
