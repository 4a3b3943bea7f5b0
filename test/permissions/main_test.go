package main

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

func TestAnUnusedPermissionNeedsAReason(t *testing.T) {
	list := permissions.Permission{Role: "ClusterRole bongsu", Verb: "list", Resource: "nodes"}
	escalate := permissions.Permission{Role: "ClusterRole bongsu", Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "roles"}
	held := []permissions.Permission{list, escalate}
	for name, tc := range map[string]struct {
		unused []permissions.Permission
		err    string
		want   string
	}{
		"all are used":       {nil, "", "2 of 2 permissions are used"},
		"one has a reason":   {[]permissions.Permission{list}, "", "ClusterRole bongsu: list nodes: "},
		"one has none":       {[]permissions.Permission{escalate}, "no test uses ClusterRole bongsu: escalate roles.rbac.authorization.k8s.io", "1 of 2 permissions are used"},
		"one has, the other": {held, "escalate roles", "0 of 2 permissions are used, 1 are unused for a known reason"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := evaluate(&out, held, tc.unused)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one that contains %q", err, tc.err)
			}
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("output does not contain %q:\n%s", tc.want, out.String())
			}
		})
	}
}

func TestADirectoryWithoutRequestsIsAnError(t *testing.T) {
	if err := run(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("got no error, want one")
	}
}
