package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionFromBuildInformation(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: modified}}
	}
	for name, tc := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"installed by version":         {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		"built from a checkout":        {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("false")}, "0123abc"},
		"built with local changes":     {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, "0123abc-dirty"},
		"without build information":    {debug.BuildInfo{}, "unknown"},
		"local changes without commit": {debug.BuildInfo{Settings: vcs("true")[1:]}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(&tc.info); got != tc.want {
				t.Errorf("of() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheStampTakesPrecedence(t *testing.T) {
	stamp = "v9"
	t.Cleanup(func() { stamp = "" })
	if got := String(); got != "v9" {
		t.Errorf("String() = %q, want the stamp", got)
	}
}
