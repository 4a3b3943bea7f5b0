package localcluster

import "testing"

func TestTheControlPlaneHasTheVersionOfTheToolkit(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                                    "v1.2.3",
		"v1.2.3-rc.1":                               "v1.2.3-rc.1",
		"v1.2.3-beta-2-x":                           "v1.2.3-beta-2-x",
		"v0.0.0-20261127114218-3ec35f1a2b3c":        "3ec35f1a2b3c",
		"v1.2.4-0.20261127114218-3ec35f1a2b3c":      "3ec35f1a2b3c",
		"v1.2.3-rc.1.0.20261127114218-3ec35f1a2b3c": "3ec35f1a2b3c",
	} {
		m := module{Path: toolkitModule, Version: version}
		if got := m.query(); got != toolkitModule+"/controlplane@"+want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
	forked := module{Path: toolkitModule, Version: "v1.0.0", Replace: &module{Path: "example.com/fork", Version: "v1.0.1"}}
	if got := forked.query(); got != "example.com/fork/controlplane@v1.0.1" {
		t.Errorf("of a fork: got %s", got)
	}
}
