package watch

import "testing"

func TestPath(t *testing.T) {
	for want, p := range map[string]path{
		"":                            nil,
		"status.phase":                {"status", "phase"},
		"spec.containers[app].image":  {"spec", "containers", "[app]", "image"},
		"data[a.b]":                   {"data", "a.b"},
		"metadata.labels[example/x]":  {"metadata", "labels", "example/x"},
		"[0].x":                       {"[0]", "x"},
		"spec[with space].containers": {"spec", "with space", "containers"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPathsThatGoOnFromOneDoNotDisturbEachOther(t *testing.T) {
	at := append(make(path, 0, 8), "a")
	b, c := at.then("b"), at.then("c")
	if b.String() != "a.b" || c.String() != "a.c" {
		t.Errorf("%s, %s", b, c)
	}
}

func TestPattern(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern string
		at      path
		last    string
		ok      bool
	}{
		"the same":                {"status phase", path{"status", "phase"}, "", true},
		"another":                 {"status phase", path{"status", "phases"}, "", false},
		"shorter":                 {"status phase", path{"status"}, "", false},
		"longer":                  {"status phase", path{"status", "phase", "x"}, "", false},
		"one step":                {"metadata labels *", path{"metadata", "labels", "a.b/c"}, "a.b/c", true},
		"an item":                 {"spec * image", path{"spec", "[app]", "image"}, "app", true},
		"any beginning":           {"** containers * image", path{"spec", "template", "spec", "containers", "[app]", "image"}, "app", true},
		"no beginning":            {"** containers * image", path{"containers", "[app]", "image"}, "app", true},
		"too short for beginning": {"** containers * image", path{"[app]", "image"}, "", false},
		"any end":                 {"status conditions **", path{"status", "conditions", "[Ready]", "status"}, "", true},
		"no end":                  {"status conditions **", path{"status", "conditions"}, "", true},
		"too short for end":       {"status conditions **", path{"status"}, "", false},
		"another end":             {"status conditions **", path{"spec", "conditions", "x"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if last, ok := parsePattern(tc.pattern).match(tc.at); ok != tc.ok || ok && last != tc.last {
				t.Errorf("got %q, %v; want %q, %v", last, ok, tc.last, tc.ok)
			}
		})
	}
}
