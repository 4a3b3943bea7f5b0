package explain

import (
	"regexp"
	"slices"
)

// logRule says what a line at the end of a container's log means.
type logRule struct {
	line            *regexp.Regexp
	message, advice string
}

// logRules match what runtimes and programs print before they end. They are for lines that say why in
// a fixed form. The first rule that matches the latest line wins.
var logRules = []logRule{
	// The kernel cannot run the command. The exit code is 1 or 255, depending on runc's version.
	{regexp.MustCompile(`^(?:exec \S+|standard_init_linux\.go:\d+: exec user process caused): exec format error$`),
		"its command is built for another CPU architecture, or is a script without a #! line", "use an image for the node's architecture, or select other nodes"},
	// istio/tools/istio-iptables/pkg/validation
	{regexp.MustCompile(`\biptables validation failed; workload is not ready for Istio`),
		"the network of the pod was set up before the CNI plugin of Istio was ready on its node", "delete the pod, so that its controller creates it again; an administrator can set cni.repair.deletePods to do this always"},
	// dash, busybox, bash
	{regexp.MustCompile(`^(?:/\S+/)?(?:sh|ash|bash|dash)(?:: line \d+|: \d+)?: (?:exec: )?(\S+): (?:command )?not found$`),
		"the shell does not find the command ${1}", "check command and args, and that the image contains it"},
	{regexp.MustCompile(`^(?:/\S+/)?(?:sh|ash|bash|dash)(?:: line \d+|: \d+)?: (?:exec: )?(\S+): (?:Permission denied|cannot execute.*)$`),
		"the shell may not execute ${1}", "make the file executable in the image, and check the user that the container runs as"},
	{regexp.MustCompile(`^(?:ModuleNotFoundError|ImportError): (.*)$`),
		"Python cannot import a module: ${1}", "add the module to the image, or correct PYTHONPATH"},
	{regexp.MustCompile(`^python\d?: can't open file '([^']+)': (.*)$`),
		"Python cannot open ${1}: ${2}", "check args, and that the image or a volume contains the file"},
	{regexp.MustCompile(`^Error: Cannot find module '([^']+)'`),
		"Node.js cannot find module ${1}", "check args and the working directory, and that the image contains the module"},
	{regexp.MustCompile(`^Error: (?:Unable to access jarfile (\S+)|Could not find or load main class (\S+))`),
		"Java cannot load ${1}${2}", "check args and the class path, and that the image contains it"},
	{regexp.MustCompile(`\bjava\.lang\.OutOfMemoryError: (.*)$`),
		"Java ran out of memory: ${1}", "raise the heap (-XX:MaxRAMPercentage or -Xmx) and resources.limits.memory, or reduce the memory use"},
	{regexp.MustCompile(`(?i)\b(?:EADDRINUSE|address already in use)\b[: ]*(\S*)`),
		"its port is already in use in the pod ${1}", "give each container of the pod another port; with hostNetwork, also other pods on the node count"},
}

// addLog explains the cause by the end of a log, if one of its lines says why in a known form.
func (c *Cause) addLog(lines []string) {
	for _, line := range slices.Backward(lines) {
		for _, r := range logRules {
			at := r.line.FindStringSubmatchIndex(line)
			if at == nil {
				continue
			}
			c.Message += ": " + shortLine(string(r.line.ExpandString(nil, r.message, line, at)))
			c.Advice = r.advice
			return
		}
	}
}
