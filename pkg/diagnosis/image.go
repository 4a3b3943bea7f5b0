package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// imageReasons maps the kubelet's reasons to wait for an image to ours.
var imageReasons = map[string]string{
	"ErrImagePull":              ReasonErrImagePull,
	"RegistryUnavailable":       ReasonErrImagePull,
	"SignatureValidationFailed": ReasonErrImagePull,
	"ImagePullBackOff":          ReasonImagePullBackOff,
	"ErrImageNeverPull":         ReasonErrImageNeverPull,
	"InvalidImageName":          ReasonInvalidImageName,
}

// The messages about a pull without sufficient credentials. A registry that requires a login also
// denies access to an image that does not exist. deniedBecause precedes what the registry says.
const (
	deniedPull    = "the registry denies access, or has no such repository"
	noCredentials = deniedPull + "; the node sent no credentials (no basic auth credentials)"
	deniedBecause = "the registry denies access: "
)

// These messages are about the node alone, so that the cause names it.
const (
	damagedStore = "the node's image store is damaged"
	fullDisk     = "the node's disk is full"
)

// imageRules match the errors of container runtimes. The order matters: a registry that
// requires a login also answers "denied" for an image that does not exist.
var imageRules = []rule{
	{compile(`image verifier (\S+) blocked pull of \S+ with digest \S+ for reason: (.*)`),
		`the node's image verifier "${1}" refuses it: ${2}`, "use an image that it allows, or ask the cluster's administrator", false},
	{compile(`image verifier (\S+) returned error: (.*)`),
		`the node's image verifier "${1}" fails: ${2}`, administratorLater, true},
	{compile(`did not include a token in the response|unable to decode token response`),
		"the service that authorizes pulls for the registry, or a proxy before it, gives no valid answer", "ask the administrator of the registry or the proxy", false},
	{compile(`rejecting (\d+) byte manifest`),
		"its manifest has ${1} bytes, more than the node's container runtime accepts", "check what was pushed with this tag, or push the image again", false},
	{compile(`number of layers and diffIDs don't match|mismatched image rootfs and manifest layers`),
		"the image is damaged, or no container image: its manifest and its configuration do not match", "check that it is a container image, or build and push it again", false},
	{compile(`Source image rejected: (.*)`),
		"the node's signature policy rejects it: ${1}", "use a signed image, or ask the cluster's administrator which images are allowed", false},
	{compile(`error parsing HTTP \d+ response body: invalid character '<'|StatusCode: \d+, "<`),
		"the registry, or a mirror or proxy before it, answers with a web page", "check the mirror or proxy, not the tag; if you do not know it, ask the cluster's administrator", false},
	{compile(`(current image with .* cannot be pulled due to configured policy in '.*?'|image .* cannot be pulled due to configured policy)`),
		"a policy of the registry forbids it: ${1}", "use an image that it allows, or ask the administrator of the registry", false},
	{compile(`registry (\S+) is blocked in`),
		"the node's configuration blocks registry ${1}", "use an image of another registry, or ask the cluster's administrator", false},
	{compile(`missing private key needed for decryption`),
		"the image is encrypted, and the node has no key for it", "use an image that is not encrypted, or ask the cluster's administrator to add the key", false},
	{compile(`^[A-Z][a-z]+ "[^"]*": (Proxy Authentication Required|Forbidden)$`),
		"the node's proxy refuses the connection to the registry: ${1}", "ask the cluster's administrator whether the proxy allows this registry", false},
	{compile(`^[A-Z][a-z]+ "[^"]*": (Bad Gateway|Service Unavailable|Gateway Time-?out)$`),
		"the node's proxy cannot connect to the registry: ${1}", "check the host in the image name; if it is correct, wait until the registry is available", true},
	{compile(`remote error: tls: (.*)`),
		"the registry refuses the TLS connection of the node: ${1}", "ask the cluster's administrator; the registry can require a client certificate or another version of TLS", false},
	{compile(`^connection error: desc = |^error reading from server: EOF$`),
		"the node's container runtime does not respond", administratorLater, true},
	{compile(`(?:^|: )context canceled$|^lease \S+: not found$`),
		"the pull was cancelled, for example because the node's container runtime was restarted", "wait for the next attempt; if the problem persists, ask the cluster's administrator", true},
	{compile(`parent snapshot \S+ does not exist|locating item named \S+ for image`),
		damagedStore, "ask the cluster's administrator to remove the image from the node, so that it is pulled again", false},
	{compile(`client with IP '([^']+)' is not allowed access`),
		"the registry's firewall refuses the address of the node, ${1}", "ask the administrator of the registry to allow it", false},
	{compile(httpStatus + `412\b`),
		"the registry refuses it (412 Precondition Failed)", "ask the administrator of the registry whether a policy forbids the image, for example for its vulnerabilities", false},
	{compile(httpStatus + `(4(?:02|51)\b.*)`),
		"the registry refuses it: ${1}", "ask the administrator of the registry, or use another registry", false},
	{compile(`certificate is valid for (.+), not (\S+)$`),
		"the registry's certificate is for ${1}, not for ${2}", "check the host in the image name, or ask the administrator of the registry to correct the certificate", false},
	{compile(`doesn't contain any IP SANs`),
		"the registry's certificate is not valid for its IP address", "use the host name of the registry in the image name, or ask its administrator to correct the certificate", false},
	{compile(`which reports content size of zero`),
		"the registry, or a proxy before it, does not send the size of the image", "ask the administrator of the registry or the proxy", false},
	{compile(`certificate has expired or is not yet valid`),
		"the registry's certificate has expired, or is not valid yet", "ask the administrator of the registry to renew it; the clock of the node can also be wrong", false},
	{compile(`(?:^|\s)(/[^\s:]+): (?:connect: )?permission denied`),
		"a file on the node cannot be accessed: ${1}: permission denied", administratorLater, true},
	{compile(`unexpected media type (\S+) for`),
		"the registry, or a mirror or proxy before it, answers with ${1}, which is no image", "check the mirror or proxy, not the tag; if you do not know it, ask the cluster's administrator", false},
	{compile(`content digest \S+: not found`),
		damagedStore, "ask the cluster's administrator to remove the image from the node, so that it is pulled again", false},
	{compile(`short-name .* did not resolve|returns ambiguous list`),
		"its name has no registry, and the node cannot choose one", "write the whole name, for example docker.io/library/NAME:TAG", false},
	{compile(`pull QPS exceeded`),
		"the node pulls too many images at once", "wait", true},
	{compile(`(?i)toomanyrequests|too many requests|rate limit`),
		"the registry's rate limit is reached", "wait, or add the credentials of an account to imagePullSecrets", true},
	{compile(`(?i)no such host|server misbehaving|failure in name resolution|lookup \S+ on \S+ .*i/o timeout`),
		"the registry's host name cannot be resolved", "check the host in the image name", true},
	{compile(`proxyconnect \w+: (tls: .*)`),
		"the node cannot use its proxy: ${1}", "ask the cluster's administrator to correct the address of the proxy on the node", false},
	{compile(`(?i)proxyconnect`),
		"the node's proxy cannot be reached", administratorLater, true},
	{compile(`server gave HTTP response|first record does not look like a TLS handshake`),
		"the registry does not use TLS, which the node requires", "ask the cluster's administrator to change the node's settings of the registry", false},
	{compile(`(?i)x509|certificate`),
		"the node does not trust the registry's certificate", "ask the cluster's administrator to make the nodes trust the registry", false},
	{compile(`\btls: (.*)`),
		"the TLS connection to the registry fails: ${1}", "ask the cluster's administrator to check the registry and the node's settings of it", false},
	{compile(httpStatus + `(5\d\d\b.*)`),
		"the registry, or a proxy before it, answers with an error: ${1}", "wait; if the problem persists, ask the administrator of the registry", true},
	{compile(`(?i)i/o timeout|timed out|connection refused|connection reset|timeout|no route to host|network is unreachable|` +
		`registry is unavailable|deadline exceeded|stream error|connection lost|GOAWAY|: EOF`),
		"the registry cannot be reached", "check the host in the image name; if it is correct, wait until the registry is available", true},
	{compile(`(?i)unexpected commit digest|failed size validation|unexpected EOF|invalid checksum|failed to verify|gzip: invalid`),
		"the download is damaged", "wait for the next attempt; if the problem persists, push the image again", true},
	{compile(`(?i)media type|mediatype|schema ?v?1\b`),
		"the container runtime of the node does not support the image's format", "push the image again with a current tool", false},
	{compile(`(?i)signature validation failed|signature required|policy rejected`),
		"its signature is not valid", "use a signed image, or ask the cluster's administrator which images are allowed", false},
	{compile(`(?i)(?:^|: )([^:]*\b(?:authorization|token|credentials?|password|login|session)\b[^:]*\bexpired\b[^:]*)`),
		deniedBecause + "${1}", "renew the credentials that the node uses for this registry", false},
	{compile(`no basic auth credentials`),
		noCredentials, "check the image name, and that imagePullSecrets names a Secret with credentials for the image", false},
	{compile(`(?i)denied|unauthorized|authorization failed|forbidden|authentication required|no basic auth|missing username or secret|insufficient_scope|` + httpStatus + `40[13]\b`),
		deniedPull, "check the image name, and that imagePullSecrets names a Secret with credentials for the image", false},
	{compile(`(?i)no match for platform|no matching manifest|no image found in (?:image index|manifest list)`),
		"the image is not built for the node's operating system and CPU architecture", "use an image for this platform, or select other nodes", false},
	{compile(`(?i)not ?found|manifest unknown|name unknown|does not exist`),
		"the registry has no such image or tag", "check the image name and tag", false},
	{compile(`(?i)no space left`),
		fullDisk, "wait until the node frees disk space, or ask the cluster's administrator", true},
}

// layerRules match errors about a part of an image. The registry has accepted its name by then, so
// that imageRules would be wrong about them.
var layerRules = []rule{
	{compile(`could not fetch content descriptor .* from remote: not found|failed to copy: .*content at \S+ not found`),
		"the registry has lost a part of the image", "push the image again; if the registry is a mirror, ask its administrator", false},
	{compile(`failed to copy: .*` + httpStatus + `40[13]\b`),
		"the registry has the image, but access to a part of it is denied", "ask the administrator of the registry; its storage, a proxy, or the clock of the node can be the reason", false},
	{compile(`failed to copy: .*Get "\w+://([^/"]+)/[^"]*": .*(?:no such host|server misbehaving)`),
		"the node cannot resolve ${1}, from which it must download the image", "ask the cluster's administrator to check the DNS and the firewall of the nodes", true},
	{compile(`failed to copy: .*` + httpStatus + `(5\d\d\b.*)`),
		"the registry, or a proxy before it, answers with an error: ${1}", "wait; if the problem persists, ask the administrator of the registry", true},
	{compile(`failed to copy: .*(?:: EOF$|connection reset|unexpected EOF|i/o timeout|connection timed out|stream error|connection lost|GOAWAY|broken pipe)`),
		"the connection to the registry was interrupted during the download", "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the network", true},
	{compile(`failed to copy: context canceled`),
		"the download was cancelled, because no data arrived or the node's container runtime was restarted",
		"wait for the next attempt; if the problem persists, ask the cluster's administrator to check the network", true},
}

// backOffPrefix precedes the error of the last pull, if the kubelet reports it.
var backOffPrefix = compile(`^Back-off pulling image "[^"]*"(?:: )?`)

// pullPrefix precedes the error in other texts.
var pullPrefix = compile(`^(?:ErrImagePull: |Failed to pull image "[^"]*": |Error: (?:ErrImagePull|ImagePullBackOff)$)`)

// imageCause is the cause of a container whose image cannot be pulled.
func (c *container) imageCause(reason, message string) Cause {
	what := "the image of " + c.label()
	if c.spec.Image != "" {
		what = "image " + quote(line(c.spec.Image, maxName)) + " of " + c.label()
	}
	switch reason {
	case ReasonInvalidImageName:
		return c.cause(reason, explanation{message: what + " has an invalid name", advice: "write it as REGISTRY/NAME:TAG in lower case"})
	case ReasonErrImageNeverPull:
		return c.cause(reason, explanation{message: what + " is not on the node, and imagePullPolicy is Never", advice: "set imagePullPolicy to IfNotPresent"})
	}
	last := latestPull(c.events, c.name)
	detail := pullError(message)
	if detail == "" && last != nil {
		detail = pullError(last.Note)
	}
	if v := c.imageVolume(detail); v != nil {
		what = fmt.Sprintf("image %q of volume %q, which %s mounts,", line(v.Image.Reference, maxName), v.Name, c.label())
	}
	r, ok := match(layerRules, detail)
	if !ok {
		r = matchOr(imageRules, detail, c.eventsAdvice())
	}
	if unread := c.unreadPullSecrets(last); strings.HasPrefix(r.message, deniedPull) && unread.message != "" {
		r.message, r.advice = unread.message+", and the registry denies access", unread.advice
	} else {
		r = c.namePullSecrets(r)
	}
	what += " cannot be pulled"
	node := ""
	if r.message == damagedStore || r.message == fullDisk {
		node = c.pod.Spec.NodeName
	}
	if node != "" {
		what += " on node " + quote(line(node, maxName))
	}
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = what + r.message
	cause := c.cause(reason, r).withEvent(last)
	cause.Node = node
	return cause
}

// namePullSecrets names the Secrets that the pod uses for the registry, if it denies access. They exist:
// otherwise the node reports that it cannot read them.
func (c *container) namePullSecrets(r explanation) explanation {
	var names []string
	for _, s := range c.pod.Spec.ImagePullSecrets {
		if s.Name != "" {
			names = append(names, quote(line(s.Name, maxName)))
		}
	}
	if len(names) == 0 {
		return r
	}
	secrets := "Secret " + strings.Join(names, ", ")
	switch {
	case strings.HasPrefix(r.message, deniedBecause):
		r.advice = "renew the credentials in " + secrets
	case r.message == noCredentials:
		r.message += ", although the pod names " + secrets
		r.advice = "check that " + secrets + " has credentials for " + registryOf(c.spec.Image) + ", and check the image name"
	case r.message == deniedPull:
		r.advice = "check the image name, and that the credentials in " + secrets + " are valid for " + registryOf(c.spec.Image) + " and may read the image"
	}
	return r
}

// registryOf returns the host of an image name. See github.com/distribution/reference, splitDockerDomain.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host = "docker.io"
	}
	return quote(line(host, maxName))
}

// imageVolume returns the volume whose image cannot be pulled, or nil if it is the image of the container.
// The kubelet reports both in the same way.
func (c *container) imageVolume(detail string) *corev1.Volume {
	for i := range c.pod.Spec.Volumes {
		v := &c.pod.Spec.Volumes[i]
		if v.Image != nil && v.Image.Reference != "" && strings.Contains(detail, v.Image.Reference) && !strings.Contains(detail, c.spec.Image) {
			return v
		}
	}
	return nil
}

var unreadSecrets = compile(`^Unable to retrieve some image pull secrets \(([^)]+)\)`)

// unreadPullSecrets names the Secrets of imagePullSecrets that the kubelet could not read. It
// reports them with each pull. The message is empty if it read all.
func (s *podView) unreadPullSecrets(pull *Event) explanation {
	e := latest(s.events, failedPullSecret)
	if e == nil || pull.isAfter(e.LastSeen.Add(maxEventDelay)) {
		return explanation{}
	}
	return pullSecretText(e.Note)
}

// failedPullSecret is the reason of the Event about Secrets that imagePullSecrets names and the
// kubelet cannot read.
const failedPullSecret = "FailedToRetrieveImagePullSecret"

// pullSecretText explains the note of such an Event. The kubelet emits it for each failed read, not
// only for a Secret that does not exist.
func pullSecretText(note string) explanation {
	m := unreadSecrets.FindStringSubmatch(note)
	if m == nil {
		return explanation{}
	}
	names := quote(strings.ReplaceAll(line(m[1], maxQuoted), ", ", `", "`))
	if strings.Contains(names, ", ") {
		return explanation{message: "the node cannot read the Secrets " + names + " in imagePullSecrets", advice: "check that they exist in this namespace"}
	}
	return explanation{message: "the node cannot read the Secret " + names + " in imagePullSecrets", advice: "check that it exists in this namespace"}
}

// pullError returns the error in a text about a pull, or "".
func pullError(text string) string {
	text = backOffPrefix.ReplaceAllString(line(text, maxRead), "")
	return stripNoise(pullPrefix.ReplaceAllString(text, ""))
}

// latestPull returns the last Event of a failed pull for the container, or nil.
func latestPull(events []Event, container string) *Event {
	var last *Event
	for i := range events {
		if e := &events[i]; e.Container() == container && isPullFailure(e) {
			last = e
		}
	}
	return last
}

func isPullFailure(e *Event) bool {
	return e.Reason == "Failed" && strings.HasPrefix(e.Note, "Failed to pull image ")
}

// imageReasonOf returns the reason that an Event about an image stands for.
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
