package explain

import (
	"strings"
	"testing"
)

func TestTheLogSaysWhyAContainerEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		log, want string
	}{
		"a script":            {"exec /app/run: exec format error", "another CPU architecture"},
		"Istio":               {"error Error connecting to 127.0.0.6:15002\nerror iptables validation failed; workload is not ready for Istio.\nWhen using Istio CNI, this can occur if a pod is scheduled before the node is ready.\n\nIf installed with 'cni.repair.deletePods=true', this pod should be deleted.", "before the CNI plugin of Istio was ready"},
		"dash":                {"/bin/sh: 1: serve: not found", "does not find the command serve"},
		"bash":                {"bash: line 3: /app/start.sh: Permission denied", "may not execute /app/start.sh"},
		"Python":              {"Traceback (most recent call last):\n  File \"/app.py\", line 1, in <module>\nModuleNotFoundError: No module named 'flask'", "No module named 'flask'"},
		"Node.js":             {"Error: Cannot find module '/app/server.js'\n    at Function._load\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v22.1.0", "cannot find module /app/server.js"},
		"Java":                {"Error: Unable to access jarfile app.jar", "cannot load app.jar"},
		"Java, memory":        {"Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n\tat App.main(App.java:3)", "Java heap space"},
		"handled earlier":     {"ModuleNotFoundError: No module named 'uvloop'\nusing asyncio\nfatal: no configuration", ""},
		"found by a script":   {"sh: 1: curl: not found\ncontinuing\ndatabase is locked", ""},
		"Go":                  {"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f1a5]\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:9 +0x1d\nexit status 2", "panicked: runtime error: invalid memory address"},
		"a panic of a server": {"2026/02/01 10:00:00 http: panic serving 10.0.0.1:5000: no\nlistening again", ""},
		"Go, runtime":         {"fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [select (no cases)]:\nmain.main()", "all goroutines are asleep"},
		".NET":                {"Unhandled exception. System.IO.FileNotFoundException: Could not find file '/app/conf.json'.\n   at Program.Main()", "Could not find file '/app/conf.json'"},
		".NET, program":       {"The application to execute does not exist: '/app/web.dll'.", "cannot find /app/web.dll"},
		"PHP":                 {"PHP Fatal error:  Uncaught PDOException: could not find driver in /app/db.php:3\nStack trace:\n#0 {main}\n  thrown in /app/db.php on line 3", "could not find driver"},
		"Ruby":                {"<internal:/usr/lib/ruby/rubygems/core_ext/kernel_require.rb>:136:in 'Kernel#require': cannot load such file -- sinatra (LoadError)\n\tfrom app.rb:1:in '<main>'", "cannot load sinatra"},
		"Bundler":             {"/usr/lib/ruby/bundler/definition.rb:507:in `materialize': Could not find rack-2.2.3 in any of the sources (Bundler::GemNotFound)", "the gem rack-2.2.3"},
		"Rust":                {"thread 'main' panicked at src/main.rs:2:5:\nno configuration\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "src/main.rs:2:5"},
		"Rust, earlier":       {"thread 'main' panicked at 'no, configuration', src/main.rs:2:5", "panicked at src/main.rs:2:5"},
		"Rust, a worker":      {"thread 'tokio-runtime-worker' panicked at src/job.rs:2:5:\nfailed\nshutting down", ""},
		"glibc":               {"/app/web: error while loading shared libraries: libssl.so.1.1: cannot open shared object file: No such file or directory", "library libssl.so.1.1"},
		"musl":                {"Error loading shared library libstdc++.so.6: No such file or directory (needed by /app/web)\nError relocating /app/web: _ZNSs: symbol not found", "library libstdc++.so.6"},
		"glibc, version":      {"/app/web: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /app/web)", "needs GLIBC_2.34"},
		"something unknown":   {"fatal: no route", ""},
		"nothing":             {"", ""},
		"a name of a module":  {"starting ModuleNotFoundError: x service", ""},
	} {
		c := &Cause{Message: "it ended", Advice: "check its log"}
		lines := splitLog(tc.log)
		c.addLog(lines[max(0, len(lines)-maxLines):])
		if found := c.Message != "it ended"; found != (tc.want != "") || !strings.Contains(c.Message, tc.want) || found == (c.Advice == "check its log") {
			t.Errorf("%s: %s: %s", name, c.Message, c.Advice)
		}
	}
}
