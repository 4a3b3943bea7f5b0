package diagnosis

import (
	"regexp"
)

// configReasons are the reasons why a container cannot be made, and what they are
// called here.
var configReasons = map[string]string{
	"CreateContainerConfigError": ReasonCreateContainerConfigError,
	"CreateContainerError":       ReasonCreateContainerError,
	"PreCreateHookError":         ReasonCreateContainerError,
	"PreStartHookError":          ReasonCreateContainerError,
	"PostStartHookError":         ReasonCreateContainerError,
	"ImageInspectError":          ReasonCreateContainerError,
	"RunContainerError":          ReasonRunContainerError,
}

// missing is what the kubelet says of a ConfigMap, a Secret or a key that is not there.
var missingReference = regexp.MustCompile(`^Error: (?:configmap|secret) ".*" not found$|^Error: couldn't find key `)

var configRules = []rule{
	{regexp.MustCompile(`configmap "([^"]+)" not found`),
		`ConfigMap "${1}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(`secret "([^"]+)" not found`),
		`Secret "${1}" does not exist`, "create it, or correct its name", false},
	{regexp.MustCompile(`couldn't find key (\S+) in ConfigMap [^/\s]+/(\S+)`),
		`ConfigMap "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{regexp.MustCompile(`couldn't find key (\S+) in Secret [^/\s]+/(\S+)`),
		`Secret "${2}" has no key "${1}"`, "add the key, or correct its name", false},
	{regexp.MustCompile(`runAsNonRoot and image will run as root`),
		"its image would run as root, and runAsNonRoot forbids that", "set securityContext.runAsUser to another user than 0, or use another image", false},
	{regexp.MustCompile(`runAsNonRoot and image has non-numeric user \(([^)]*)\)`),
		`its image runs as user "${1}", of whom only the name is known, and runAsNonRoot asks for a number`,
		"set securityContext.runAsUser to that user's number", false},
	{regexp.MustCompile(`failed to sync (\w+) cache|services have not yet been read`),
		"the node has not read yet what it refers to", "wait", true},
	{regexp.MustCompile(`subPath`), "a subPath of its volumeMounts cannot be prepared", "check the volumeMounts and what is in the volume", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": (?:stat [^:]*: )?(?:executable file not found|no such file or directory)`),
		`its image has no command "${1}"`, "check command and args, and the image", false},
	{regexp.MustCompile(`exec: \\?"([^"\\]*)\\?": permission denied`),
		`its command "${1}" may not be executed`, "check command, and that the file is executable", false},
	{regexp.MustCompile(`no command specified`), "neither it nor its image says which command to run", "set command", false},
	{regexp.MustCompile(`context deadline exceeded|is reserved for`),
		"the node takes too long to make it", "wait; if it lasts, ask whoever runs the cluster", true},
	{regexp.MustCompile(`no space left`), "the node's disk is full", "wait until the node has cleaned up, or ask whoever runs the cluster", true},
}

// config is a container that cannot be made of what it refers to.
func (c *container) createCause(reason, message string) Cause {
	last := latest(c.ownEvents(), "Failed", "FailedPostStartHook")
	if message == "" && last != nil {
		message = last.Note
	}
	r := matchOr(configRules, stripNoise(message), "")
	if r.message != "" {
		r.message = ": " + r.message
	} else {
		r.transient = true
	}
	r.message = c.label() + " cannot be started" + r.message
	return c.cause(reason, r).withEvent(last)
}

// ownEvents are those that regard the container.
func (c *container) ownEvents() []Event {
	var own []Event
	for _, e := range c.events {
		if e.container() == c.name {
			own = append(own, e)
		}
	}
	return own
}
