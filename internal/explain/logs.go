package explain

import (
	"regexp"
	"slices"
)

// logRule says what a line at the end of a container's log means.
type logRule struct {
	line *regexp.Regexp
	// among is how many of the last lines can be it. Others can be older than the end of the program.
	among           int
	message, advice string
}

// shell matches how dash, busybox and bash begin a line about a command.
const shell = `^(?:/\S+/)?(?:sh|ash|bash|dash)(?:: line \d+|: \d+)?: (?:exec: )?`

// logRules match what runtimes and programs print before they end. They are for lines that say why in
// a fixed form. The first rule that matches the latest line wins.
var logRules = []logRule{
	// The kernel cannot run the command. The exit code is 1 or 255, depending on runc's version.
	{regexp.MustCompile(`^(?:exec \S+|standard_init_linux\.go:\d+: exec user process caused): exec format error$`), 1,
		"its command is built for another CPU architecture, or is a script without a #! line", "use an image for the node's architecture, or select other nodes"},
	// istio/tools/istio-iptables/pkg/validation
	{regexp.MustCompile(`\biptables validation failed; workload is not ready for Istio`), maxLines,
		"the network of the pod was set up before the CNI plugin of Istio was ready on its node", "delete the pod, so that its controller creates it again; an administrator can set cni.repair.deletePods to do this always"},
	{regexp.MustCompile(shell + `(\S+): (?:command )?not found$`), 1,
		"the shell does not find the command ${1}", "check command and args, and that the image contains it"},
	{regexp.MustCompile(shell + `(\S+): (?:Permission denied|cannot execute.*)$`), 1,
		"the shell may not execute ${1}", "make the file executable in the image, and check the user that the container runs as"},
	{regexp.MustCompile(`^(?:ModuleNotFoundError|ImportError): (.*)$`), 1,
		"Python cannot import a module: ${1}", "add the module to the image, or correct PYTHONPATH"},
	{regexp.MustCompile(`^python\d?: can't open file '([^']+)': (.*)$`), 1,
		"Python cannot open ${1}: ${2}", "check args, and that the image or a volume contains the file"},
	// Node.js prints a stack below it.
	{regexp.MustCompile(`^Error: Cannot find module '([^']+)'`), maxLines,
		"Node.js cannot find module ${1}", "check args and the working directory, and that the image contains the module"},
	{regexp.MustCompile(`^Error: (?:Unable to access jarfile (\S+)|Could not find or load main class (\S+))`), 2,
		"Java cannot load ${1}${2}", "check args and the class path, and that the image contains it"},
	// A program in Go can log after it. It prints a stack below a panic.
	{regexp.MustCompile(`^panic: (.*?)(?: \[recovered\])?$`), maxLines,
		"the program in Go panicked: ${1}", "find the panic in the code by the stack in the log"},
	{regexp.MustCompile(`^fatal error: (all goroutines are asleep - deadlock!|concurrent map (?:read and map write|writes|iteration and map write)|stack overflow)$`), maxLines,
		"the runtime of Go ended the program: ${1}", "find the place in the code by the stack in the log"},
	{regexp.MustCompile(`^Unhandled exception\. ([\w.]+Exception: .*)$`), maxLines,
		"an exception in .NET was not handled: ${1}", "find the place in the code by the stack in the log"},
	// dotnet/runtime, hostfxr
	{regexp.MustCompile(`^The application to execute does not exist: '([^']+)'`), 2,
		".NET cannot find ${1}", "check command and args, and that the image contains the file"},
	{regexp.MustCompile(`^Could not execute because the (?:specified command or file|application) was not found`), maxLines,
		".NET cannot find the program", "check command and args, and that the image contains the file"},
	{regexp.MustCompile(`^PHP (?:Fatal|Parse) error: +(.*)$`), maxLines,
		"PHP ended with an error: ${1}", "correct the code, or add what is missing to the image"},
	{regexp.MustCompile(`: cannot load such file -- (\S+) \(LoadError\)$`), maxLines,
		"Ruby cannot load ${1}", "add the gem or the file to the image"},
	{regexp.MustCompile(`\bCould not find (\S+) in (?:any of the sources|locally installed gems|cached gems or installed locally)`), maxLines,
		"Bundler does not find the gem ${1}", "run bundle install when the image is built"},
	// Another thread than main does not end the program.
	{regexp.MustCompile(`^thread 'main'(?: \(\d+\))? panicked at (?:.*, )?(\S+:\d+:\d+):?$`), maxLines,
		"the program in Rust panicked at ${1}", "find this place in the code; the log has the message"},
	// The first form is that of glibc, the second that of musl.
	{regexp.MustCompile(`(?:^\S+: error while loading shared libraries: |^Error loading shared library )(\S+): (?:cannot open shared object file|No such file or directory)`), maxLines,
		"the program needs the library ${1}, which the image does not have", "install it when the image is built, or use an image that has it"},
	{regexp.MustCompile(`^\S+: (/\S*(?:libc|libstdc\+\+|libm)\.so\S*): version ` + "[`']" + `(\S+)' not found`), maxLines,
		"the program needs ${2} of ${1}, which the image does not have", "build it with the libraries of the image, or use a newer image"},
	{regexp.MustCompile(`^Exception in thread "main" java\.lang\.OutOfMemoryError: (.*)$`), maxLines,
		"Java ran out of memory: ${1}", "raise the heap (-XX:MaxRAMPercentage or -Xmx) and resources.limits.memory, or reduce the memory use"},
}

// addLog explains the cause by the end of a log, if one of its lines says why in a known form.
func (c *Cause) addLog(lines []string) {
	for age, line := range slices.Backward(lines) {
		for _, r := range logRules {
			at := r.line.FindStringSubmatchIndex(line)
			if at == nil || len(lines)-age > r.among {
				continue
			}
			c.Message += ": " + shortLine(string(r.line.ExpandString(nil, r.message, line, at)))
			c.Advice = r.advice
			return
		}
	}
}
