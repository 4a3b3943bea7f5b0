package diagnosis

import (
	"fmt"
	"strconv"
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

// deniedPull is the message about a pull without sufficient credentials. A registry that requires a login
// also denies access to an image that does not exist.
const deniedPull = "the registry denies access, or has no such repository"

// imageRules match the errors of container runtimes. The order matters: a registry that
// requires a login also answers "denied" for an image that does not exist.
var imageRules = []rule{
	{name: "image-verifier-refuses", problem: lasting,
		text:    compile(`image verifier (\S+) blocked pull of \S+ with digest \S+ for reason: (.*)`),
		message: `the node's image verifier "${1}" refuses it: ${2}`,
		advice:  "use an image that it allows, or ask the cluster's administrator"},
	{name: "image-verifier-fails", problem: passing,
		text:    compile(`image verifier (\S+) returned error: (.*)`),
		message: `the node's image verifier "${1}" fails: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "registry-token-invalid", problem: lasting,
		text:    compile(`did not include a token in the response|unable to decode token response`),
		message: "the service that authorizes pulls for the registry, or a proxy before it, gives no valid answer",
		advice:  "ask the administrator of the registry or the proxy"},
	{name: "manifest-too-large", problem: lasting,
		text:    compile(`rejecting (\d+) byte manifest`),
		message: "its manifest has ${1} bytes, more than the node's container runtime accepts",
		advice:  "check what was pushed with this tag, or push the image again"},
	{name: "manifest-mismatch", problem: lasting,
		text:    compile(`number of layers and diffIDs don't match|mismatched image rootfs and manifest layers`),
		message: "the image is damaged, or no container image: its manifest and its configuration do not match",
		advice:  "check that it is a container image, or build and push it again"},
	{name: "signature-policy-rejects", problem: lasting,
		text:    compile(`Source image rejected: (.*)`),
		message: "the node's signature policy rejects it: ${1}",
		advice:  "use a signed image, or ask the cluster's administrator which images are allowed"},
	{name: "registry-sends-web-page", problem: lasting,
		text:    compile(`error parsing HTTP \d+ response body: invalid character '<'|StatusCode: \d+, "<`),
		message: "the registry, or a mirror or proxy before it, answers with a web page",
		advice:  "check the mirror or proxy, not the tag; if you do not know it, ask the cluster's administrator"},
	{name: "registry-policy-forbids", problem: lasting,
		text:    compile(`(current image with .* cannot be pulled due to configured policy in '.*?'|image .* cannot be pulled due to configured policy)`),
		message: "a policy of the registry forbids it: ${1}",
		advice:  "use an image that it allows, or ask the administrator of the registry"},
	{name: "registry-blocked", problem: lasting,
		text:    compile(`registry (\S+) is blocked in`),
		message: "the node's configuration blocks registry ${1}",
		advice:  "use an image of another registry, or ask the cluster's administrator"},
	{name: "image-encrypted", problem: lasting,
		text:    compile(`missing private key needed for decryption`),
		message: "the image is encrypted, and the node has no key for it",
		advice:  "use an image that is not encrypted, or ask the cluster's administrator to add the key"},
	{name: "proxy-refuses", problem: lasting,
		text:    compile(`^[A-Z][a-z]+ "[^"]*": (Proxy Authentication Required|Forbidden)$`),
		message: "the node's proxy refuses the connection to the registry: ${1}",
		advice:  "ask the cluster's administrator whether the proxy allows this registry"},
	{name: "proxy-bad-gateway", problem: passing,
		text:    compile(`^[A-Z][a-z]+ "[^"]*": (Bad Gateway|Service Unavailable|Gateway Time-?out)$`),
		message: "the node's proxy cannot connect to the registry: ${1}",
		advice:  "check the host in the image name; if it is correct, wait until the registry is available",
		late:    "check the host in the image name; if it is correct, ask the cluster's administrator whether the nodes can reach the registry"},
	{name: "registry-tls-refused", problem: lasting,
		text:    compile(`remote error: tls: (.*)`),
		message: "the registry refuses the TLS connection of the node: ${1}",
		advice:  "ask the cluster's administrator; the registry can require a client certificate or another version of TLS"},
	{name: "pull-runtime-down", problem: passing,
		text:    compile(`^connection error: desc = |^error reading from server: EOF$`),
		message: "the node's container runtime does not respond",
		advice:  administratorLater, late: administrator},
	{name: "pull-cancelled", problem: passing,
		text:    compile(`(?:^|: )context canceled$|^lease \S+: not found$`),
		message: "the pull was cancelled, for example because the node's container runtime was restarted",
		advice:  "wait for the next attempt; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "snapshot-missing", problem: lasting, means: MeansNodeStorage,
		text:    compile(`parent snapshot \S+ does not exist|locating item named \S+ for image`),
		message: "the node's image store is damaged",
		advice:  "ask the cluster's administrator to remove the image from the node, so that it is pulled again"},
	{name: "registry-firewall", problem: lasting,
		text:    compile(`client with IP '([^']+)' is not allowed access`),
		message: "the registry's firewall refuses the address of the node, ${1}",
		advice:  "ask the administrator of the registry to allow it"},
	{name: "registry-precondition-failed", problem: lasting,
		text:    compile(httpStatus + `412\b`),
		message: "the registry refuses it (412 Precondition Failed)",
		advice:  "ask the administrator of the registry whether a policy forbids the image, for example for its vulnerabilities"},
	{name: "registry-refuses", problem: lasting,
		text:    compile(httpStatus + `(4(?:02|51)\b.*)`),
		message: "the registry refuses it: ${1}",
		advice:  "ask the administrator of the registry, or use another registry"},
	{name: "registry-certificate-other-host", problem: lasting,
		text:    compile(`certificate is valid for (.+), not (\S+)$`),
		message: "the registry's certificate is for ${1}, not for ${2}",
		advice:  "check the host in the image name, or ask the administrator of the registry to correct the certificate"},
	{name: "registry-certificate-no-ip", problem: lasting,
		text:    compile(`doesn't contain any IP SANs`),
		message: "the registry's certificate is not valid for its IP address",
		advice:  "use the host name of the registry in the image name, or ask its administrator to correct the certificate"},
	{name: "registry-sends-no-size", problem: lasting,
		text:    compile(`which reports content size of zero`),
		message: "the registry, or a proxy before it, does not send the size of the image",
		advice:  "ask the administrator of the registry or the proxy"},
	{name: "registry-certificate-expired", problem: lasting,
		text:    compile(`certificate has expired or is not yet valid`),
		message: "the registry's certificate has expired, or is not valid yet",
		advice:  "ask the administrator of the registry to renew it; the clock of the node can also be wrong"},
	{name: "node-file-permission-denied", problem: passing,
		text:    compile(`(?:^|\s)(/[^\s:]+): (?:connect: )?permission denied`),
		message: "a file on the node cannot be accessed: ${1}: permission denied",
		advice:  administratorLater, late: administrator},
	{name: "unexpected-media-type", problem: lasting,
		text:    compile(`unexpected media type (\S+) for`),
		message: "the registry, or a mirror or proxy before it, answers with ${1}, which is no image",
		advice:  "check the mirror or proxy, not the tag; if you do not know it, ask the cluster's administrator"},
	{name: "content-missing-on-node", problem: lasting, means: MeansNodeStorage,
		text:    compile(`content digest \S+: not found`),
		message: "the node's image store is damaged",
		advice:  "ask the cluster's administrator to remove the image from the node, so that it is pulled again"},
	{name: "short-name-ambiguous", problem: lasting,
		text:    compile(`short-name .* did not resolve|returns ambiguous list`),
		message: "its name has no registry, and the node cannot choose one",
		advice:  "write the whole name, for example docker.io/library/NAME:TAG"},
	{name: "pull-qps-exceeded", problem: passing,
		text:    compile(`pull QPS exceeded`),
		message: "the node pulls too many images at once",
		advice:  "wait", late: administrator},
	{name: "registry-rate-limit", problem: passing,
		text:    compile(`(?i)toomanyrequests|too many requests|rate limit`),
		message: "the registry's rate limit is reached",
		advice:  "wait, or add the credentials of an account to imagePullSecrets",
		late:    "add the credentials of an account to imagePullSecrets"},
	{name: "registry-host-not-found", problem: passing,
		text:    compile(`(?i)no such host|server misbehaving|failure in name resolution|lookup \S+ on \S+ .*i/o timeout`),
		message: "the registry's host name cannot be resolved",
		advice:  "check the host in the image name"},
	{name: "proxy-tls-fails", problem: lasting,
		text:    compile(`proxyconnect \w+: (tls: .*)`),
		message: "the node cannot use its proxy: ${1}",
		advice:  "ask the cluster's administrator to correct the address of the proxy on the node"},
	{name: "proxy-unreachable", problem: passing,
		text:    compile(`(?i)proxyconnect`),
		message: "the node's proxy cannot be reached",
		advice:  administratorLater, late: administrator},
	{name: "registry-without-tls", problem: lasting,
		text:    compile(`server gave HTTP response|first record does not look like a TLS handshake`),
		message: "the registry does not use TLS, which the node requires",
		advice:  "ask the cluster's administrator to change the node's settings of the registry"},
	{name: "registry-certificate-not-trusted", problem: lasting,
		text:    compile(`(?i)x509|certificate`),
		message: "the node does not trust the registry's certificate",
		advice:  "ask the cluster's administrator to make the nodes trust the registry"},
	{name: "registry-tls-fails", problem: lasting,
		text:    compile(`\btls: (.*)`),
		message: "the TLS connection to the registry fails: ${1}",
		advice:  "ask the cluster's administrator to check the registry and the node's settings of it"},
	{name: "registry-server-error", problem: passing,
		text:    compile(httpStatus + `(5\d\d\b.*)`),
		message: "the registry, or a proxy before it, answers with an error: ${1}",
		advice:  "wait; if the problem persists, ask the administrator of the registry",
		late:    "ask the administrator of the registry"},
	{name: "registry-unreachable", problem: passing,
		text: compile(`(?i)i/o timeout|timed out|connection refused|connection reset|timeout|no route to host|network is unreachable|` +
			`registry is unavailable|deadline exceeded|stream error|connection lost|GOAWAY|: EOF`),
		message: "the registry cannot be reached",
		advice:  "check the host in the image name; if it is correct, wait until the registry is available",
		late:    "check the host in the image name; if it is correct, ask the cluster's administrator whether the nodes can reach the registry"},
	{name: "download-damaged", problem: passing,
		text:    compile(`(?i)unexpected commit digest|failed size validation|unexpected EOF|invalid checksum|failed to verify|gzip: invalid`),
		message: "the download is damaged",
		advice:  "wait for the next attempt; if the problem persists, push the image again",
		late:    "push the image again"},
	{name: "image-format-not-supported", problem: lasting,
		text:    compile(`(?i)media type|mediatype|schema ?v?1\b`),
		message: "the container runtime of the node does not support the image's format",
		advice:  "push the image again with a current tool"},
	{name: "signature-not-valid", problem: lasting,
		text:    compile(`(?i)signature validation failed|signature required|policy rejected`),
		message: "its signature is not valid",
		advice:  "use a signed image, or ask the cluster's administrator which images are allowed"},
	{name: "registry-credentials-expired", problem: lasting, means: MeansExpiredCredentials,
		text:    compile(`(?i)(?:^|: )([^:]*\b(?:authorization|token|credentials?|password|login|session)\b[^:]*\bexpired\b[^:]*)`),
		message: "the registry denies access: ${1}",
		advice:  "renew the credentials that the node uses for this registry"},
	// ECR and Artifact Registry
	{name: "registry-permission-missing", problem: lasting, means: MeansAccessDenied,
		text:    compile(`(?:^|: )((?:User: )?\S+ is not authorized to perform: \S+ on resource: .*|Permission "[^"]+" denied on resource .*)`),
		message: "the registry denies access: ${1}",
		advice:  "give this permission to the identity that pulls the image, usually that of the node"},
	{name: "registry-no-credentials", problem: lasting, means: MeansNoCredentials,
		text:    compile(`no basic auth credentials`),
		message: deniedPull + "; the node sent no credentials (no basic auth credentials)",
		advice:  "check the image name, and that imagePullSecrets names a Secret with credentials for the image"},
	{name: "registry-access-denied", problem: lasting, means: MeansAccessDenied,
		text:    compile(`(?i)denied|unauthorized|authorization failed|forbidden|authentication required|no basic auth|missing username or secret|insufficient_scope|` + httpStatus + `40[13]\b`),
		message: deniedPull,
		advice:  "check the image name, and that imagePullSecrets names a Secret with credentials for the image"},
	{name: "platform-mismatch", problem: lasting,
		text:    compile(`(?i)no match for platform|no matching manifest|no image found in (?:image index|manifest list)`),
		message: "the image is not built for the node's operating system and CPU architecture",
		advice:  "use an image for this platform, or select other nodes"},
	{name: "image-not-found", problem: lasting,
		text:    compile(`(?i)not ?found|manifest unknown|name unknown|does not exist`),
		message: "the registry has no such image or tag",
		advice:  "check the image name and tag"},
	{name: "pull-disk-full", problem: passing, means: MeansNodeStorage,
		text:    compile(`(?i)no space left`),
		message: "the node's disk is full",
		advice:  "wait until the node frees disk space, or ask the cluster's administrator", late: administrator},
}

// layerRules match errors about a part of an image. The registry has accepted its name by then, so
// that imageRules would be wrong about them.
var layerRules = []rule{
	{name: "layer-lost", problem: lasting,
		text:    compile(`could not fetch content descriptor .* from remote: not found|failed to copy: .*content at \S+ not found`),
		message: "the registry has lost a part of the image",
		advice:  "push the image again; if the registry is a mirror, ask its administrator"},
	{name: "layer-access-denied", problem: lasting,
		text:    compile(`failed to copy: .*` + httpStatus + `40[13]\b`),
		message: "the registry has the image, but access to a part of it is denied",
		advice:  "ask the administrator of the registry; its storage, a proxy, or the clock of the node can be the reason"},
	{name: "layer-host-not-found", problem: passing,
		text:    compile(`failed to copy: .*Get "\w+://([^/"]+)/[^"]*": .*(?:no such host|server misbehaving)`),
		message: "the node cannot resolve ${1}, from which it must download the image",
		advice:  "ask the cluster's administrator to check the DNS and the firewall of the nodes"},
	{name: "layer-server-error", problem: passing,
		text:    compile(`failed to copy: .*` + httpStatus + `(5\d\d\b.*)`),
		message: "the registry, or a proxy before it, answers with an error: ${1}",
		advice:  "wait; if the problem persists, ask the administrator of the registry",
		late:    "ask the administrator of the registry"},
	{name: "layer-download-interrupted", problem: passing,
		text:    compile(`failed to copy: .*(?:: EOF$|connection reset|unexpected EOF|i/o timeout|connection timed out|stream error|connection lost|GOAWAY|broken pipe)`),
		message: "the connection to the registry was interrupted during the download",
		advice:  "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the network",
		late:    "ask the cluster's administrator to check the network"},
	{name: "layer-download-cancelled", problem: passing,
		text:    compile(`failed to copy: context canceled`),
		message: "the download was cancelled, because no data arrived or the node's container runtime was restarted",
		advice:  "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the network",
		late:    "ask the cluster's administrator to check the network"},
}

// backOffPrefix precedes the error of the last pull, if the kubelet reports it.
var backOffPrefix = compile(`^Back-off pulling image "[^"]*"(?:: )?`)

// pullPrefix precedes the error in other texts.
var pullPrefix = compile(`^(?:ErrImagePull: |Failed to pull image "[^"]*": |Error: (?:ErrImagePull|ImagePullBackOff)$)`)

// injected is the image of a gateway before Istio's injection: istio.io/docs/setup/additional-setup/gateway.
const injected = "auto"

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
	if c.spec.Image == injected {
		return c.cause(reason, explanation{
			message: what + ` cannot be pulled: it stands for the image that Istio's injection sets, and the pod was not injected`,
			advice:  "enable the injection for the namespace (label istio-injection or istio.io/rev) and for the pod, and create the pod again",
		})
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
	var blames []Object
	if unread := c.unreadPullSecrets(last); unread.message != "" && (r.means == MeansAccessDenied || r.means == MeansNoCredentials) {
		r.message, r.advice = unread.message+", and the registry denies access", unread.advice
		blames = c.pullSecretsIn(unread.message)
	} else {
		r = c.namePullSecrets(r)
	}
	what += " cannot be pulled"
	node := ""
	if r.means == MeansNodeStorage {
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
	cause.Node, cause.Blames = node, blames
	return cause
}

// pullSecretsIn returns the Secrets of imagePullSecrets that a message names.
func (c *container) pullSecretsIn(message string) (all []Object) {
	for _, s := range c.pod.Spec.ImagePullSecrets {
		if strings.Contains(message, strconv.Quote(s.Name)) {
			all = append(all, Object{"Secret", s.Name})
		}
	}
	return all
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
	switch r.means { //nolint:exhaustive // the others are no matter of credentials
	case MeansExpiredCredentials:
		r.advice = "renew the credentials in " + secrets
	case MeansNoCredentials:
		r.message += ", although the pod names " + secrets
		r.advice = "check that " + secrets + " has credentials for " + registryOf(c.spec.Image) + ", and check the image name"
	case MeansAccessDenied:
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
