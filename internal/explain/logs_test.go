package explain

import (
	"strings"
	"testing"
)

func TestTheLogSaysWhyAContainerEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		log, want string
	}{
		"a script":           {"exec /app/run: exec format error", "another CPU architecture"},
		"Istio":              {"error Error connecting to 127.0.0.6:15002\nerror iptables validation failed; workload is not ready for Istio.\nWhen using Istio CNI, this can occur if a pod is scheduled before the node is ready.\n\nIf installed with 'cni.repair.deletePods=true', this pod should be deleted.", "before the CNI plugin of Istio was ready"},
		"dash":               {"/bin/sh: 1: serve: not found", "does not find the command serve"},
		"bash":               {"bash: line 3: /app/start.sh: Permission denied", "may not execute /app/start.sh"},
		"Python":             {"Traceback (most recent call last):\n  File \"/app.py\", line 1, in <module>\nModuleNotFoundError: No module named 'flask'", "No module named 'flask'"},
		"Node.js":            {"Error: Cannot find module '/app/server.js'\n    at Function._load\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v22.1.0", "cannot find module /app/server.js"},
		"Java":               {"Error: Unable to access jarfile app.jar", "cannot load app.jar"},
		"Java, memory":       {"Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n\tat App.main(App.java:3)", "Java heap space"},
		"handled earlier":    {"ModuleNotFoundError: No module named 'uvloop'\nusing asyncio\nfatal: no configuration", ""},
		"found by a script":  {"sh: 1: curl: not found\ncontinuing\ndatabase is locked", ""},
		"something unknown":  {"panic: runtime error", ""},
		"nothing":            {"", ""},
		"a name of a module": {"starting ModuleNotFoundError: x service", ""},
	} {
		c := &Cause{Message: "it ended", Advice: "check its log"}
		c.addLog(linesOf(tc.log))
		if found := c.Message != "it ended"; found != (tc.want != "") || !strings.Contains(c.Message, tc.want) || found == (c.Advice == "check its log") {
			t.Errorf("%s: %s: %s", name, c.Message, c.Advice)
		}
	}
}
