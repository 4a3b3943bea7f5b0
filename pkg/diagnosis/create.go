package diagnosis

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Prefixes that controllers and the API server write before the reason. The first two
// capture the name of the pod.
var (
	creatingPrefix      = compile(`^(?:Error creating(?: job)?: |Failed to create new replica set "[^"]*": |[Cc]reate (?:Claim \S+ for )?Pod (\S+) in StatefulSet \S+ failed error: )`)
	forbiddenPrefix     = compile(`^[\w.]+ "[^"]*" is forbidden: `)
	invalidPrefix       = compile(`^[\w.]+ "[^"]*" is invalid: `)
	deletingPrefix      = compile(`^(?:Error deleting: |Deleted job: |[Dd]elete Pod (\S+) in StatefulSet \S+ failed error: )`)
	creatingClaimPrefix = compile(`^failed to create PVC (\S+?): `)
)

var quotaExceeded = compile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)

// creationRule matches a rejection by the API server.
type creationRule struct {
	rule
	reason string
}

var creationRules = []creationRule{
	{rule{compile(`cannot be fulfilled on resourcequotas "([^"]+)": the object has been modified`),
		`the usage of ResourceQuota "${1}" changed at the same moment`, "wait for the next attempt", true}, ReasonFailedCreate},
	{rule{compile(`(?:add|replace|remove|test) operation does not apply: (.*)`),
		"the change that a mutating webhook or policy makes does not fit it: ${1}", "ask the cluster's administrator to check the mutating webhooks and policies", false}, ReasonFailedCreate},
	{rule{compile(`\bPod "[^"]*" is invalid: metadata\.labels: Invalid value: ("[^"]*"): must be no more than 63`),
		"a label that its controller sets is longer than 63 characters: ${1}", "use a shorter name for the object", false}, ReasonFailedCreate},
	{rule{compile(`cannot set blockOwnerDeletion`),
		"its controller may not update the finalizers of the object that owns it", "ask the cluster's administrator to add this permission to the role of the controller", false}, ReasonFailedCreate},
	{rule{compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (expression .* resulted in error: .*)`),
		`admission policy "${1}" fails, and then forbids it: ${2}`, "ask the cluster's administrator to correct the policy; to avoid the error, set the field that it reads", false}, ReasonAdmissionDenied},
	{rule{compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: failed to configure \w+: (.* not yet synced .*)`),
		`admission policy "${1}" cannot be evaluated yet: ${2}`, "wait", true}, ReasonFailedCreate},
	{rule{compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: failed to configure \w+: (.*)`),
		`admission policy "${1}" cannot be evaluated, and then forbids it: ${2}`, "ask the cluster's administrator to correct the policy or its binding", false}, ReasonAdmissionDenied},
	{rule{compile(`admission webhook "([^"]+)" denied the request:? ?(.*\b(?:dial tcp|i/o timeout|timed out|context deadline exceeded|context canceled|connection refused|server misbehaving)\b.*)`),
		`admission webhook "${1}" could not check it: ${2}`, administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`status unknown for quota: ([^,\s]+)`),
		`the usage of ResourceQuota "${1}" is not known yet`, "wait", true}, ReasonFailedCreate},
	{rule{compile(`insufficient quota to consume: (.*)`),
		"no ResourceQuota of the namespace allows ${1}", "remove it from resources, or ask the cluster's administrator for a quota", false}, ReasonAdmissionDenied},
	{rule{compile(`insufficient quota to match these scopes: (.*)`),
		"no ResourceQuota of the namespace allows it: ${1}", "change what the scope names, for example priorityClassName, or ask the cluster's administrator for a quota", false}, ReasonAdmissionDenied},
	{rule{compile(`Request entity too large: limit is (\d+)`),
		"the request is larger than the limit of ${1} bytes", "make the spec smaller", false}, ReasonFailedCreate},
	{rule{compile(`^object is being deleted: `),
		"the earlier object of its name is still being deleted", "wait until it is gone", true}, ReasonFailedCreate},
	{rule{compile(`pod node label selector (?:labels )?conflicts? with its namespace`),
		"its nodeSelector contradicts that of the namespace", "correct nodeSelector, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`pod tolerations .* conflict with its \w+ whitelist`),
		"the namespace does not allow its tolerations", "remove tolerations, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`.* is not allowed because service account \S+ does not reference that (?:secret|imagePullSecret)`),
		"${0}", "add the Secret to secrets or imagePullSecrets of the service account, or do not use it", false}, ReasonAdmissionDenied},
	{rule{compile(`integer value of priority .* must not be provided`),
		"its spec.priority differs from that of its PriorityClass", "remove spec.priority", false}, ReasonAdmissionDenied},
	{rule{compile(`Overhead doesn't match RuntimeClass's defined Overhead`),
		"its spec.overhead differs from that of its RuntimeClass", "remove spec.overhead", false}, ReasonAdmissionDenied},
	{rule{compile(`^conflict: \S+ = \S+; \S+ = `),
		"its nodeSelector contradicts that of its RuntimeClass", "correct nodeSelector, or use another RuntimeClass", false}, ReasonAdmissionDenied},
	{rule{compile(`has TopologyKey (\S+) but only key (\S+) is allowed`),
		"its required podAntiAffinity uses topologyKey ${1}, and the cluster allows only ${2}", "use that topologyKey, or preferred podAntiAffinity", false}, ReasonAdmissionDenied},
	{rule{compile(`image policy webhook backend denied one or more images: (.*)`),
		"the cluster's image policy forbids it: ${1}", "use another image, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`unable to validate against any security context constraint: \[(.*)\]`),
		"no SecurityContextConstraints of the cluster allow it: ${1}", "change securityContext, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`failed quota: (\S+): must specify (.+)`),
		`ResourceQuota "${1}" requires values that are not set: ${2}`, "set them in resources", false}, ReasonAdmissionDenied},
	{rule{compile(`((?:maximum|minimum) \S+ usage per \w+ is [^\]]*|[^\s\[]+ max limit to request ratio per \w+ is [^\]]*)`),
		someLimitRange + `${1}`, "change resources", false}, ReasonAdmissionDenied},
	{rule{compile(`violates PodSecurity "([^"]+)": (.*)`),
		`the namespace's Pod Security level ${1} forbids it: ${2}`, "change the fields named in parentheses", false}, ReasonAdmissionDenied},
	{rule{compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (.*)`),
		`admission policy "${1}" forbids it: ${2}`, "change the spec accordingly, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`admission webhook "([^"]+)" denied the request:? ?(.*)`),
		`admission webhook "${1}" forbids it: ${2}`, "change the spec accordingly, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`policy ['"]([^'"]+)['"](?: with binding '[^']+')? denied request: (.*)`),
		`admission policy "${1}" forbids it: ${2}`, "change the spec accordingly, or ask the cluster's administrator", false}, ReasonAdmissionDenied},
	{rule{compile(`failed calling webhook "([^"]+)".*certificate has expired`),
		`the certificate of admission webhook "${1}" has expired`, "ask the cluster's administrator to renew it", false}, ReasonFailedCreate},
	{rule{compile(`failed calling webhook "([^"]+)".*(?:x509|certificate)`),
		`the API server does not trust the certificate of admission webhook "${1}"`, "ask the cluster's administrator to correct the webhook's caBundle", false}, ReasonFailedCreate},
	{rule{compile(`failed calling webhook "([^"]+)".*service "([^"]+)" not found`),
		`Service "${2}" of admission webhook "${1}" does not exist`, "ask the cluster's administrator to install the webhook again or to delete its configuration", false}, ReasonFailedCreate},
	{rule{compile(`failed calling webhook "([^"]+)".*no endpoints available for service`),
		`no pod of admission webhook "${1}" is ready`, administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`failed calling webhook "([^"]+)".*(?:the server could not find the requested resource|unexpected response code|received invalid webhook response|expected response\.uid)`),
		`admission webhook "${1}" gives no valid answer`, "ask the cluster's administrator to check the webhook and its configuration", false}, ReasonFailedCreate},
	{rule{compile(`failed calling webhook "([^"]+)"`),
		`admission webhook "${1}" does not answer`, administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`Operation cannot be fulfilled on \S+ "[^"]*": the object has been modified`),
		"it changed at the same moment", "wait for the next attempt", true}, ReasonFailedCreate},
	{rule{compile(`^\S+ ("[^"]*") already exists`),
		"${1} already exists", "wait until it is gone; delete it if no other controller manages it", true}, ReasonFailedCreate},
	{rule{compile(`at this time because there was an (error .*)`),
		"the API server has an ${1}", administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`^pvc (\S+) is being deleted`),
		`claim "${1}" is being deleted`, "wait until it is gone, and check its finalizers if it stays", true}, ReasonFailedCreate},
	{rule{compile(`error looking up service account [^/\s]+/(\S+?): serviceaccount`),
		`service account "${1}" does not exist`, "create it, or correct serviceAccountName", false}, ReasonFailedCreate},
	{rule{compile(`no PriorityClass with name (\S+) was found`),
		`PriorityClass "${1}" does not exist`, "correct priorityClassName, or ask the cluster's administrator which ones exist", false}, ReasonFailedCreate},
	{rule{compile(`RuntimeClass "([^"]+)" not found`),
		`RuntimeClass "${1}" does not exist`, "correct runtimeClassName, or ask the cluster's administrator which ones exist", false}, ReasonFailedCreate},
	{rule{compile(`only dynamically provisioned pvc can be resized`),
		"its storage class does not allow volumes to grow", "set the former size, or ask the cluster's administrator to set allowVolumeExpansion of the storage class", false}, ReasonFailedCreate},
	{rule{compile(`in namespace (\S+) because it is being terminated`),
		`namespace "${1}" is being deleted`, "use another namespace, or wait until it is gone and create it again", true}, ReasonFailedCreate},
	{rule{compile(`database space exceeded`),
		"the database of the API server is full", "ask the cluster's administrator", false}, ReasonFailedCreate},
	{rule{compile(`etcdserver: request is too large`),
		"the object is larger than the database of the API server allows", "make the spec smaller", false}, ReasonFailedCreate},
	{rule{compile(`^not yet ready to handle request`),
		"the API server has not loaded its rules for admission yet", "wait", true}, ReasonFailedCreate},
	{rule{compile(`has received too many requests`),
		"the API server is overloaded", administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`etcdserver: |unable to return a response in time|could not be completed at this time|client connection lost|TLS handshake timeout|the server is currently unable|quota evaluation timed out|Too many requests|connection refused|context deadline exceeded`),
		"the API server did not answer in time", administratorLater, true}, ReasonFailedCreate},
	{rule{compile(`User "([^"]+)" (cannot .*)`),
		`user "${1}" ${2}`, "ask the cluster's administrator for the permission", false}, ReasonFailedCreate},
}

// creationFindings returns why controllers cannot create pods or claims.
func (v *view) creationFindings() []finding {
	last := map[Object]*Event{}
	for i := range v.Events {
		if e := &v.Events[i]; e.Reason == "FailedCreate" && v.regardsController(e) {
			last[e.Regarding] = e
		}
	}
	var found []finding
	for object, e := range last {
		if !v.createdSince(e) {
			found = append(found, finding{cause: v.heldByRollout(creationFailure(object, e.Note)).withEvent(e)})
		}
	}
	return found
}

// heldByRollout notes that old pods of the same rollout use the quota that a new pod exceeds.
func (v *view) heldByRollout(c Cause) Cause {
	if c.Quota != nil && v.KeepsOldPods && slices.ContainsFunc(v.currentPods, isReady) {
		what, _, _ := strings.Cut(c.Message, isExceeded)
		c.Quota.HeldBy = v.Surging
		c.describeQuota(what, false)
	}
	return c
}

// regardsController reports whether the Event regards the controller of the pods.
func (v *view) regardsController(e *Event) bool {
	if e.Regarding.Kind == kindPod || e.Regarding.Kind == kindClaim {
		return false
	}
	return v.Controllers == nil || e.UID == "" || slices.Contains(v.Controllers, e.UID)
}

// createdSince reports whether the pod of a FailedCreate Event has been created since.
func (v *view) createdSince(e *Event) bool {
	name := podNameIn(e.Note)
	return slices.ContainsFunc(v.Pods, func(p *corev1.Pod) bool {
		if name != "" {
			return p.Name == name
		}
		return e.LastSeen.IsZero() || !p.CreationTimestamp.Time.Before(e.LastSeen)
	})
}

func podNameIn(note string) string {
	if m := creatingPrefix.FindStringSubmatch(note); m != nil {
		return m[1]
	}
	return ""
}

// creationFailure returns the cause of a controller's failure to create an object.
func creationFailure(object Object, text string) Cause {
	text = stripNoise(text)
	what := "the pod"
	switch {
	case strings.HasPrefix(text, "Error creating job: "):
		what = "the Job"
	case strings.HasPrefix(text, "Failed to create new replica set "):
		what = "the ReplicaSet"
	}
	text = creatingPrefix.ReplaceAllString(text, "")
	if m := creatingClaimPrefix.FindStringSubmatch(text); m != nil {
		what, text = "claim "+quote(line(m[1], maxName)), creatingClaimPrefix.ReplaceAllString(text, "")
	}
	return rejection(object, what+" cannot be created", text)
}

// deletionFailure returns the cause of a controller's failure to delete a pod, or a Job if the
// controller is that of a CronJob.
func deletionFailure(object Object, text string) Cause {
	text = stripNoise(text)
	what := "the pod"
	if m := deletingPrefix.FindStringSubmatch(text); m != nil && m[1] != "" {
		what = "pod " + quote(line(m[1], maxName))
	} else if object.Kind == "CronJob" {
		what = "the Job"
	}
	cause := rejection(object, what+" cannot be deleted", deletingPrefix.ReplaceAllString(text, ""))
	if cause.Reason == ReasonAdmissionDenied {
		cause.Advice = "do what it asks for, or ask the cluster's administrator"
	}
	cause.Reason = ReasonFailedDelete
	return cause
}

// rejection returns why the API server rejected an object. The message begins with what.
func rejection(object Object, what, text string) Cause {
	text = forbiddenPrefix.ReplaceAllString(text, "")
	cause := Cause{Object: object, Count: 1}
	if m := quotaExceeded.FindStringSubmatch(text); m != nil {
		cause.Quota = &ExceededQuota{Name: line(m[1], maxName), Requested: parseAmounts(m[2]), Used: parseAmounts(m[3]), Limited: parseAmounts(m[4])}
		cause.describeQuota(what, false)
		return cause
	}
	if m := callsWebhook.FindStringSubmatch(text); m != nil {
		cause.Blames = []Object{{KindWebhook, m[1]}}
	}
	hidden := words(text)
	for _, r := range creationRules { // the inner errors can be those of webhooks and policies
		if got, ok := r.explain(text, hidden, limitOf(r.reason, maxQuoted)); ok {
			cause.Reason, cause.Transient = r.reason, got.transient
			cause.Message, cause.Advice = what+": "+got.message, got.advice
			return cause
		}
	}
	cause.Reason, cause.Advice = ReasonFailedCreate, "if the spec is correct, ask the cluster's administrator"
	cause.Message = what + ": " + excerpt(invalidPrefix.ReplaceAllString(text, ""))
	if invalidPrefix.MatchString(text) {
		cause.Advice = "correct the field"
	}
	return cause
}

// FromCreateFailure returns the cause that a controller reports when it cannot create a
// pod, for example in the condition ReplicaFailure of a Deployment.
func FromCreateFailure(object Object, message string) Cause {
	cause := creationFailure(object, message)
	cause.sanitize()
	return cause
}

// fromReplicaFailure returns the cause in the condition ReplicaFailure of a Deployment or ReplicaSet.
func fromReplicaFailure(object Object, reason, message string, since time.Time) *Cause {
	cause := creationFailure(object, message)
	if reason == ReasonFailedDelete {
		cause = deletionFailure(object, message)
	}
	cause.Time = since
	cause.sanitize()
	return &cause
}

// FromAPIError returns the cause of the API server's error for a create or update
// request. It returns false for errors that a retry can solve: conflicts, timeouts, an overloaded or
// failing server, and a namespace that is being deleted. A retry also creates an object that was deleted
// before its update. A failing admission webhook is a cause, although the API server reports it as its
// own failure. FromAPIError also returns false if the object exists already, which the caller must handle.
func FromAPIError(object Object, err error) (Cause, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || isTransient(object, err, status.Status()) {
		return Cause{}, false
	}
	s := status.Status()
	what := object.Kind + " " + quote(object.Name) + " is rejected"
	cause := rejection(object, what, stripNoise(s.Message))
	if fields := invalidFields(s); len(fields) > 0 && cause.Reason == ReasonFailedCreate {
		cause.Reason, cause.Advice, cause.Message = ReasonInvalidSpec, "correct the field", what
		if len(fields) > 1 {
			cause.Advice = "correct the fields"
		}
		cause.SetItems(fields)
	}
	cause.sanitize()
	return cause, true
}

// isGone reports whether an object was deleted before its update. The next attempt creates it again.
func isGone(object Object, s metav1.Status) bool {
	return s.Reason == metav1.StatusReasonNotFound && s.Details != nil && s.Details.Name == object.Name &&
		strings.HasPrefix(s.Details.Kind, strings.ToLower(object.Kind))
}

func isTransient(object Object, err error, s metav1.Status) bool {
	const firstServerError = 500
	return isGone(object, s) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		s.Code == 0 || s.Code >= firstServerError && !callsWebhook.MatchString(s.Message) || s.Code == http.StatusRequestTimeout
}

// callsWebhook matches the error about a webhook that cannot be called. It has no other mark.
var callsWebhook = compile(`failed calling webhook "([^"]+)"`)

// KindWebhook is the kind of a blamed webhook. Its name is that in a webhook configuration.
const KindWebhook = "AdmissionWebhook"

// invalidFields lists the invalid fields of the error.
func invalidFields(s metav1.Status) (fields []string) {
	if s.Reason != metav1.StatusReasonInvalid || s.Details == nil {
		return nil
	}
	for _, c := range s.Details.Causes {
		if c.Field != "" {
			fields = append(fields, c.Field+": "+c.Message)
		}
	}
	return fields
}
