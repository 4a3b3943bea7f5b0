package diagnosis

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// changing is what differs in a text from one time to the next though it says the
// same.
var volatileText = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
	regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)`),
	regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{4,5})?\b`),
	regexp.MustCompile(`\[[0-9a-f:]*:[0-9a-f:]*\](?::\d{4,5})?`),
	regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s)\b|\b\d+h(?:\d+m)?\b`),
	regexp.MustCompile(`\b[0-9a-f]{16,63}\b`), // of 64 digits is an image's digest, which tells
	regexp.MustCompile(`\bused \S+ of\b`),
	regexp.MustCompile(`\b\d+(?:/\d+)? (?:nodes?\b|Insufficient|Too many)`),
	regexp.MustCompile(`\bthe largest node has \S+`),
}

// Identity is equal for causes that are the same failure, in whichever of a
// workload's objects of a kind: it leaves out names, times, addresses and amounts in
// use, not exit codes, images or what is asked for.
func (c *Cause) Identity() string {
	return Identity(c.Reason, c.Object.Kind, c.Object.Name, c.Container, c.ExitCode, c.Sentence())
}

func Identity(reason, kind, name, container string, code *int32, sentence string) string {
	exit := ""
	if code != nil {
		exit = strconv.Itoa(int(*code))
	}
	if name != "" {
		sentence = strings.ReplaceAll(sentence, name, "#")
	}
	for _, c := range volatileText {
		sentence = c.ReplaceAllString(sentence, "#")
	}
	return strings.Join([]string{cmp.Or(laterStages[reason], reason), kind, container, exit, sentence}, "|")
}

// families are reasons that are stages of one failure: a container that waits is not
// told anew each time it is tried again.
var laterStages = map[string]string{
	ReasonErrImagePull: ReasonImagePullBackOff,
	ReasonError:        ReasonCrashLoopBackOff,
}

// LaterStage returns the reason that a container has at the later stage of the failure
// that reason names, for example ImagePullBackOff for ErrImagePull; empty if there is
// none.
func LaterStage(reason string) string { return laterStages[reason] }

// Vague reports whether nothing is known of the cause but that it fails.
func (c *Cause) isUnspecific() bool { return strings.HasSuffix(c.Message, " cannot be pulled") }
