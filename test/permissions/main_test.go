package main

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

func TestARightThatNothingUsesNeedsAReason(t *testing.T) {
	list := permissions.Permission{Role: "ClusterRole bongsu", Verb: "list", Resource: "nodes"}
	escalate := permissions.Permission{Role: "ClusterRole bongsu", Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "roles"}
	held := []permissions.Permission{list, escalate}
	for name, tc := range map[string]struct {
		unused []permissions.Permission
		err    string
		says   string
	}{
		"all are used":       {nil, "", "2 of 2 rights were used"},
		"one has a reason":   {[]permissions.Permission{list}, "", "ClusterRole bongsu: list nodes: "},
		"one has none":       {[]permissions.Permission{escalate}, "nothing makes use of ClusterRole bongsu: escalate roles.rbac.authorization.k8s.io", "1 of 2 rights were used"},
		"one has, the other": {held, "escalate roles", "0 of 2 rights were used, of 1 it is known why not"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := judge(&out, held, tc.unused)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(out.String(), tc.says) {
				t.Errorf("it does not say %q:\n%s", tc.says, out.String())
			}
		})
	}
}

func TestWithoutTestsNothingIsJudged(t *testing.T) {
	if err := run(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("no request was seen, and nothing is said of it")
	}
}
