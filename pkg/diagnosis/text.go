package diagnosis

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits in bytes. The first two make a sentence of at most 1,024 bytes, the limit of an
// Event's note. maxDenial is the limit of a message about a refused admission: it lists all fields
// to change. maxRead limits what is read of a foreign text, maxQuoted what is quoted of it.
const (
	maxMessage = 700
	maxAdvice  = 320
	maxDenial  = maxRead
	maxRead    = 4096
	maxQuoted  = 400

	maxReason    = 64
	maxKind      = 63
	maxName      = 253
	maxContainer = 63
)

// sanitize removes control characters from the texts of a cause and cuts them to their
// limits.
func (c *Cause) sanitize() {
	c.Reason = line(c.Reason, maxReason)
	c.Object = Object{Kind: line(c.Object.Kind, maxKind), Name: line(c.Object.Name, maxName)}
	c.Container = line(c.Container, maxContainer)
	c.Message = line(c.Message, limitOf(c.Reason, maxMessage))
	c.Advice, c.LateAdvice = line(c.Advice, maxAdvice), line(c.LateAdvice, maxAdvice)
	for i := range c.Items {
		c.Items[i] = line(c.Items[i], maxQuoted)
	}
	for i := range c.Blames {
		c.Blames[i] = Object{line(c.Blames[i].Kind, maxKind), line(c.Blames[i].Name, maxName)}
	}
	c.Count = max(c.Count, 1)
}

// limitOf returns the limit of a message with the reason. usual is that of most reasons.
func limitOf(reason string, usual int) int {
	if reason == ReasonAdmissionDenied {
		return maxDenial
	}
	return usual
}

// line returns the text as a single line of at most limit bytes.
func line(s string, limit int) string {
	return plaintext.Cut(plaintext.Line(plaintext.Cut(s, maxRead)), limit)
}

// rpcError is what gRPC writes before the text of an error.
var rpcError = compile(`rpc error: code = \w+ desc = `)

// azureError matches an error of the Azure SDK with its status, code and message.
var azureError = compile(`[A-Z]+ https?://\S+ -{20,} RESPONSE (\d+): .*? ERROR CODE: (\w+) -{20,} .*?"message": "((?:[^"\\]|\\.)*)".*?(?:-{20,}|$)`)

// runtimeLog matches an error that CRI-O reports as a line of the log of runc. The quotes in it are escaped.
var runtimeLog = compile(`^(.*?)(?:container create failed|command error): time="[^"]*" level=\w+ msg="((?:[^"\\]|\\.)*)".*$`)

// noise matches other parts of component messages that do not help users.
var noise = []struct {
	text *pattern
	with string
}{
	{compile(` ?\(pod: "[^"]*", container: [^)]*\)`), ""},
	{compile(`\(?"?[a-z0-9.-]+_[a-z0-9-]+\([0-9a-f-]{36}\)"?\)?`), "the pod"},
	{compile(`dial tcp [0-9a-f.:\[\]]+: `), ""},
	{compile(` in pod the pod`), ""},
	{compile(`mount failed: exit status \d+ Mounting command: \S+ Mounting arguments: .*? Output: `), "mount failed: "},
	{compile(`CNI request failed with status \d+: '(?:.*? ERRORED: |(?:\[[^\]]*\] )+)`), ""},
	{compile(`(?: ')+$`), ""},
	{compile(`operation error [\w ]+: \w+, https response error (StatusCode: \d+), RequestID: [\w-]+, `), "${1}, "},
	{azureError, "StatusCode: ${1}, ${2}: ${3}"},
	{compile(`Retriable: \w+, RetryAfter: \w+, HTTP(StatusCode: \d+), RawError: \{ ?"error": ?\{ ?"code": ?"(\w+)", ?"message": ?"((?:[^"\\]|\\.)*)".*`), "${1}, ${2}: ${3}"},
	{compile(`\{"\w+": \{"code": \d+, "message": "((?:[^"\\]|\\.)*)"\}\}`), "${1}"}, // OpenStack
	{compile(`^container create failed: `), ""}, // CRI-O with crun
	{compile(`^Error: `), ""},
	{compile(`^Volume provisioning failed with infeasible error\. Retries will be delayed\. `), ""},
	{compile(`^(?:failed to create containerd task: |failed to create shim task: |OCI runtime create failed: |runc create failed: |` +
		`unable to start container process: |error during container init: )+`), ""},
	{compile(`provider "?[\w-]+"?: Forbidden: not usable by user or serviceaccount, |(?:, )?provider "?[\w-]+"?: Forbidden: not usable by user or serviceaccount`), ""},
}

// stripNoise returns the text of a component without its noise.
func stripNoise(text string) string {
	return stripOtherNoise(rpcError.ReplaceAllString(line(text, maxRead), ""))
}

// stripOtherNoise is stripNoise, but keeps the codes of gRPC.
func stripOtherNoise(text string) string {
	text = line(text, maxRead)
	if m := runtimeLog.FindStringSubmatch(text); m != nil {
		text = m[1] + strings.NewReplacer(`\"`, `"`, `\n`, "").Replace(m[2])
	}
	for _, n := range noise {
		text = n.text.ReplaceAllString(text, n.with)
	}
	return text
}

// excerpt shortens a foreign text so that it can be used within a sentence.
func excerpt(text string) string { return shorten(text, maxQuoted) }

// shorten is excerpt with a limit in bytes.
func shorten(text string, limit int) string {
	text = plaintext.Cut(text, limit)
	for len(text) > 0 && (text[len(text)-1] == '.' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}

// httpStatus precedes a status in an error of HTTP.
const httpStatus = `(?i:\bstatus(?: ?code)?\b|statuscode|googleapi: error).*[ :=]`

// names matches the names in a text of a component. Its first group matches words that look like
// names. The other groups are names that only the words around them show.
var names = compile(strings.Join([]string{
	`(\bi/o\b|\bmetadata\.labels\b|\bfork/exec\b|\baffinity/selector\b|\bconfig\.json\b|/sys/fs/cgroup/|/proc/sys/|\bpostIpamFailure "[^"]*"|"kube-root-ca\.crt"|\bmount\.\w+:|\b[a-z]+\.[a-z.]*k8s\.io\b)`,
	`\\"[^"]*\\"`, `"(?:[^"\\]|\\.)*"`, `\B'[^']*'\B`, "`[^`]*`",
	`(?:^|[^\w-])(?:lookup|manifest for|CSINode|by Name|getting (?:snapshot|PVC|secret)|in namespace|find (?:key|user|group)|for quota:|image name|container registry) (\S+)`,
	`\bmanifest (\S+) in `, `\bContainer (\S+) was using`, `\bstat ([^:"]+):`, `volumes=(\[[^\]]*\])`, `\btaint (\{[^}]*\})`,
	`\S*[/@]\S*`, // paths, images and addresses
	`\b[a-z0-9*][a-z0-9*-]*(?:\.[a-z0-9-]+)*:\w[\w.-]*`, // images with a tag, hosts with a port, and digests
	`\b[a-z0-9*-]+(?:\.[a-z0-9-]+)+`,                    // hosts
}, "|"))

// words returns the text without the names in it. Each letter of a name becomes an x, so that the
// result has the length of the text.
func words(text string) string {
	hidden := []byte(text)
	for _, at := range names.FindAllStringSubmatchIndex(text, -1) {
		if at[2] >= 0 {
			continue
		}
		from, to := at[0], at[1]
		for group := 4; group < len(at); group += 2 {
			if at[group] >= 0 {
				from, to = at[group], at[group+1]
			}
		}
		hide(hidden[from:to])
	}
	return string(hidden)
}

// hide replaces everything but the punctuation of a name.
func hide(name []byte) {
	for i, c := range name {
		if c == ' ' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= utf8.RuneSelf {
			name[i] = 'x'
		}
	}
}

// linkEnd separates an error from what it wraps.
var linkEnd = compile(`: | desc = `)

// wrapper matches what a component writes before the error that it wraps.
var wrapper = compile(`^(?:(?i:failed|unable|error|cannot|could not|couldn't)\b|(?:reading|initializing|pinging|copying|writing|choosing) |code = \w+$)| failed$`)

// chain returns where a text without names and the errors that it wraps begin, the innermost first.
func chain(hidden string) []int {
	starts := []int{0}
	for at := 0; ; {
		end := linkEnd.FindStringIndex(hidden[at:])
		if end == nil {
			break
		}
		if wrapper.MatchString(hidden[at : at+end[0]]) {
			starts = append(starts, at+end[1])
		}
		at += end[1]
	}
	slices.Reverse(starts)
	return starts
}

// usefulEnd is excerpt for an error that no rule matches. If the text is too long, it leaves out
// the outer errors.
func usefulEnd(text string) string {
	for _, start := range slices.Backward(chain(words(text))) {
		if len(text)-start <= maxQuoted {
			return excerpt(text[start:])
		}
	}
	return excerpt(text)
}

func quote(s string) string { return `"` + s + `"` }

// lowerFirst returns s with its first letter in lower case.
func lowerFirst(s string) string {
	if s != "" && s[0] >= 'A' && s[0] <= 'Z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}
