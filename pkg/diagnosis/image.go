package diagnosis

import (
	"regexp"
	"strings"
)

// imageReasons are the reasons why a container waits for its image, and what they
// are called here.
var imageReasons = map[string]string{
	"ErrImagePull":              ReasonErrImagePull,
	"RegistryUnavailable":       ReasonErrImagePull,
	"SignatureValidationFailed": ReasonErrImagePull,
	"ImagePullBackOff":          ReasonImagePullBackOff,
	"ErrImageNeverPull":         ReasonErrImageNeverPull,
	"InvalidImageName":          ReasonInvalidImageName,
}

// imageRules read what container runtimes say of a pull, the more certain first: a
// registry that wants to be logged in to says also of what it does not have that
// access is denied.
var imageRules = []rule{
	{regexp.MustCompile(`(?i)toomanyrequests|too many requests|rate limit`),
		"the registry limits how often one may pull", "wait, or give the credentials of an account in imagePullSecrets", true},
	{regexp.MustCompile(`(?i)no such host|server misbehaving`),
		"the registry's host is not known", "check the host in the image's name", true},
	{regexp.MustCompile(`(?i)x509|certificate|server gave HTTP response`),
		"the node does not trust the registry, or it speaks no TLS", "ask whoever runs the cluster to have the nodes trust it", false},
	{regexp.MustCompile(`(?i)i/o timeout|connection refused|connection reset|timeout|no route to host|network is unreachable|` +
		`registry is unavailable|deadline exceeded|unexpected status.*: 5\d\d|: EOF`),
		"the registry cannot be reached", "check the host in the image's name; otherwise wait until the registry answers again", true},
	{regexp.MustCompile(`(?i)signature validation failed`),
		"its signature is not valid", "use a signed image, or ask whoever runs the cluster which ones are allowed", false},
	{regexp.MustCompile(`(?i)denied|unauthorized|authorization failed|forbidden|authentication required|no basic auth|insufficient_scope|40[13]`),
		"the registry denies access, or has no such repository", "check the image's name, and that imagePullSecrets names a Secret with credentials that may pull it", false},
	{regexp.MustCompile(`(?i)no match for platform|no matching manifest`),
		"it is not made for the node's kind of processor", "use an image for this platform, or select other nodes", false},
	{regexp.MustCompile(`(?i)not ?found|manifest unknown|name unknown|does not exist`),
		"the registry has no such image or tag", "check the image's name and tag", false},
	{regexp.MustCompile(`(?i)no space left`),
		"the node's disk is full", "wait until the node has cleaned up, or ask whoever runs the cluster", true},
}

// backOff is what the kubelet puts before the error of the last pull, if it knows it.
var backOffPrefix = regexp.MustCompile(`^Back-off pulling image "[^"]*"(?:: )?`)

// pullPrefix is what it puts there otherwise.
var pullPrefix = regexp.MustCompile(`^(?:ErrImagePull: |Failed to pull image "[^"]*": |Error: (?:ErrImagePull|ImagePullBackOff)$)`)

// image is a container whose image cannot be had.
func (c *container) imageCause(reason, message string) Cause {
	what := "the image of " + c.label()
	if c.spec.Image != "" {
		what = "image " + quote(line(c.spec.Image, maxName)) + " of " + c.label()
	}
	switch reason {
	case ReasonInvalidImageName:
		return c.cause(reason, explanation{message: what + " has no valid name", advice: "write it as REGISTRY/NAME:TAG, in lower case"})
	case ReasonErrImageNeverPull:
		return c.cause(reason, explanation{message: what + " is not on the node, and imagePullPolicy is Never", advice: "set imagePullPolicy to IfNotPresent"})
	}
	last := latestPull(c.events, c.name)
	detail := pullError(message)
	if detail == "" && last != nil {
		detail = pullError(last.Note)
	}
	r := matchOr(imageRules, detail, "check the image's name and its registry")
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = what + " cannot be pulled" + r.message
	return c.cause(reason, r).withEvent(last)
}

// pullError returns the error of a pull that the text tells of, or "".
func pullError(text string) string {
	text = backOffPrefix.ReplaceAllString(line(text, maxRead), "")
	return stripNoise(pullPrefix.ReplaceAllString(text, ""))
}

// latestPull returns the last Event that tells of a failed pull for the container.
func latestPull(events []Event, container string) *Event {
	var last *Event
	for i := range events {
		if e := &events[i]; e.container() == container && isPullFailure(e) {
			last = e
		}
	}
	return last
}

func isPullFailure(e *Event) bool {
	return e.Reason == "Failed" && strings.HasPrefix(e.Note, "Failed to pull image ")
}

// imageEvent returns what an Event about an image comes to.
func imageReasonOf(e *Event) (string, bool) {
	switch {
	case isPullFailure(e), e.Reason == "Failed" && e.Note == "Error: ErrImagePull":
		return ReasonErrImagePull, true
	case e.Reason == "BackOff" && strings.HasPrefix(e.Note, "Back-off pulling image"),
		e.Reason == "Failed" && e.Note == "Error: ImagePullBackOff":
		return ReasonImagePullBackOff, true
	case e.Reason == "ErrImageNeverPull":
		return ReasonErrImageNeverPull, true
	case e.Reason == "InspectFailed" && strings.HasPrefix(e.Note, "Failed to apply default image tag"):
		return ReasonInvalidImageName, true
	}
	return "", false
}

func quote(s string) string { return `"` + s + `"` }
