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

// creationRules match rejections by the API server. Each has the reason of its cause.
var creationRules = []rule{
	{name: "quota-usage-changed", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`cannot be fulfilled on resourcequotas "([^"]+)": the object has been modified`),
		message: `the usage of ResourceQuota "${1}" changed at the same moment`,
		advice:  "wait for the next attempt", late: administrator},
	{name: "patch-does-not-apply", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`(?:add|replace|remove|test) operation does not apply: (.*)`),
		message: "the change that a mutating webhook or policy makes does not fit it: ${1}",
		advice:  "ask the cluster's administrator to check the mutating webhooks and policies"},
	{name: "label-too-long", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`\bPod "[^"]*" is invalid: metadata\.labels: Invalid value: ("[^"]*"): must be no more than 63`),
		message: "a label that its controller sets is longer than 63 characters: ${1}",
		advice:  "use a shorter name for the object"},
	{name: "no-block-owner-deletion", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`cannot set blockOwnerDeletion`),
		message: "its controller may not update the finalizers of the object that owns it",
		advice:  "ask the cluster's administrator to add this permission to the role of the controller"},
	{name: "policy-expression-fails", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (expression .* resulted in error: .*)`),
		message: `admission policy "${1}" fails, and then forbids it: ${2}`,
		advice:  "ask the cluster's administrator to correct the policy; to avoid the error, set the field that it reads"},
	{name: "policy-not-synced", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: failed to configure \w+: (.* not yet synced .*)`),
		message: `admission policy "${1}" cannot be evaluated yet: ${2}`,
		advice:  "wait", late: administrator},
	{name: "policy-not-configured", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: failed to configure \w+: (.*)`),
		message: `admission policy "${1}" cannot be evaluated, and then forbids it: ${2}`,
		advice:  "ask the cluster's administrator to correct the policy or its binding"},
	{name: "webhook-times-out-inside", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`admission webhook "([^"]+)" denied the request:? ?(.*\b(?:dial tcp|i/o timeout|timed out|context deadline exceeded|context canceled|connection refused|server misbehaving)\b.*)`),
		message: `admission webhook "${1}" could not check it: ${2}`,
		advice:  administratorLater, late: administrator},
	{name: "quota-status-unknown", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`status unknown for quota: ([^,\s]+)`),
		message: `the usage of ResourceQuota "${1}" is not known yet`,
		advice:  "wait", late: administrator},
	{name: "quota-needed-for-resource", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`insufficient quota to consume: (.*)`),
		message: "no ResourceQuota of the namespace allows ${1}",
		advice:  "remove it from resources, or ask the cluster's administrator for a quota"},
	{name: "quota-needed-for-scope", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`insufficient quota to match these scopes: (.*)`),
		message: "no ResourceQuota of the namespace allows it: ${1}",
		advice:  "change what the scope names, for example priorityClassName, or ask the cluster's administrator for a quota"},
	{name: "request-too-large", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`Request entity too large: limit is (\d+)`),
		message: "the request is larger than the limit of ${1} bytes",
		advice:  "make the spec smaller"},
	{name: "object-being-deleted", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`^object is being deleted: `),
		message: "the earlier object of its name is still being deleted",
		advice:  "wait until it is gone",
		late:    "find out why its deletion does not end: check its finalizers"},
	{name: "namespace-node-selector-conflict", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`pod node label selector (?:labels )?conflicts? with its namespace`),
		message: "its nodeSelector contradicts that of the namespace",
		advice:  "correct nodeSelector, or ask the cluster's administrator"},
	{name: "namespace-tolerations-conflict", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`pod tolerations .* conflict with its \w+ whitelist`),
		message: "the namespace does not allow its tolerations",
		advice:  "remove tolerations, or ask the cluster's administrator"},
	{name: "service-account-does-not-name-secret", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`.* is not allowed because service account \S+ does not reference that (?:secret|imagePullSecret)`),
		message: "${0}",
		advice:  "add the Secret to secrets or imagePullSecrets of the service account, or do not use it"},
	{name: "priority-set", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`integer value of priority .* must not be provided`),
		message: "its spec.priority differs from that of its PriorityClass",
		advice:  "remove spec.priority"},
	{name: "overhead-differs", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`Overhead doesn't match RuntimeClass's defined Overhead`),
		message: "its spec.overhead differs from that of its RuntimeClass",
		advice:  "remove spec.overhead"},
	{name: "runtime-class-node-selector-conflict", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`^conflict: \S+ = \S+; \S+ = `),
		message: "its nodeSelector contradicts that of its RuntimeClass",
		advice:  "correct nodeSelector, or use another RuntimeClass"},
	{name: "topology-key-not-allowed", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`has TopologyKey (\S+) but only key (\S+) is allowed`),
		message: "its required podAntiAffinity uses topologyKey ${1}, and the cluster allows only ${2}",
		advice:  "use that topologyKey, or preferred podAntiAffinity"},
	{name: "image-policy-denies", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`image policy webhook backend denied one or more images: (.*)`),
		message: "the cluster's image policy forbids it: ${1}",
		advice:  "use another image, or ask the cluster's administrator"},
	{name: "scc-denies", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`unable to validate against any security context constraint: \[(.*)\]`),
		message: "no SecurityContextConstraints of the cluster allow it: ${1}",
		advice:  "change securityContext, or ask the cluster's administrator"},
	{name: "quota-requires-values", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`failed quota: (\S+): must specify (.+)`),
		message: `ResourceQuota "${1}" requires values that are not set: ${2}`,
		advice:  "set them in resources"},
	{name: "limit-range-exceeded", problem: lasting, reason: ReasonAdmissionDenied, means: MeansLimitRange,
		text:    compile(`((?:maximum|minimum) \S+ usage per \w+ is [^\]]*|[^\s\[]+ max limit to request ratio per \w+ is [^\]]*)`),
		message: someLimitRange + `${1}`,
		advice:  "change resources"},
	{name: "pod-security-violated", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`violates PodSecurity "([^"]+)": (.*)`),
		message: `the namespace's Pod Security level ${1} forbids it: ${2}`,
		advice:  "change the fields named in parentheses"},
	{name: "policy-denies", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (.*)`),
		message: `admission policy "${1}" forbids it: ${2}`,
		advice:  "change the spec accordingly, or ask the cluster's administrator"},
	{name: "webhook-denies", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`admission webhook "([^"]+)" denied the request:? ?(.*)`),
		message: `admission webhook "${1}" forbids it: ${2}`,
		advice:  "change the spec accordingly, or ask the cluster's administrator"},
	{name: "other-policy-denies", problem: lasting, reason: ReasonAdmissionDenied,
		text:    compile(`policy ['"]([^'"]+)['"](?: with binding '[^']+')? denied request: (.*)`),
		message: `admission policy "${1}" forbids it: ${2}`,
		advice:  "change the spec accordingly, or ask the cluster's administrator"},
	{name: "webhook-certificate-expired", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)".*certificate has expired`),
		message: `the certificate of admission webhook "${1}" has expired`,
		advice:  "ask the cluster's administrator to renew it"},
	{name: "webhook-certificate-not-trusted", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)".*(?:x509|certificate)`),
		message: `the API server does not trust the certificate of admission webhook "${1}"`,
		advice:  "ask the cluster's administrator to correct the webhook's caBundle"},
	{name: "webhook-service-not-found", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)".*service "([^"]+)" not found`),
		message: `Service "${2}" of admission webhook "${1}" does not exist`,
		advice:  "ask the cluster's administrator to install the webhook again or to delete its configuration"},
	{name: "webhook-no-endpoints", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)".*no endpoints available for service`),
		message: `no pod of admission webhook "${1}" is ready`,
		advice:  administratorLater, late: administrator},
	{name: "webhook-invalid-answer", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)".*(?:the server could not find the requested resource|unexpected response code|received invalid webhook response|expected response\.uid)`),
		message: `admission webhook "${1}" gives no valid answer`,
		advice:  "ask the cluster's administrator to check the webhook and its configuration"},
	{name: "webhook-no-answer", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`failed calling webhook "([^"]+)"`),
		message: `admission webhook "${1}" does not answer`,
		advice:  administratorLater, late: administrator},
	{name: "object-modified", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`Operation cannot be fulfilled on \S+ "[^"]*": the object has been modified`),
		message: "it changed at the same moment",
		advice:  "wait for the next attempt", late: administrator},
	{name: "object-exists", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`^\S+ ("[^"]*") already exists`),
		message: "${1} already exists",
		advice:  "wait until it is gone; delete it if no other controller manages it",
		late:    "delete it if no other controller manages it"},
	{name: "apiserver-error", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`at this time because there was an (error .*)`),
		message: "the API server has an ${1}",
		advice:  administratorLater, late: administrator},
	{name: "claim-still-deleted", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`^pvc (\S+) is being deleted`),
		message: `claim "${1}" is being deleted`,
		advice:  "wait until it is gone, and check its finalizers if it stays",
		late:    "end the pods that mount it, and check its finalizers"},
	{name: "service-account-not-found", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`error looking up service account [^/\s]+/(\S+?): serviceaccount`),
		message: `service account "${1}" does not exist`,
		advice:  "create it, or correct serviceAccountName"},
	{name: "priority-class-not-found", problem: lasting, reason: ReasonFailedCreate, means: MeansMissingPriorityClass,
		text:    compile(`no PriorityClass with name (\S+) was found`),
		message: `PriorityClass "${1}" does not exist`,
		advice:  "correct priorityClassName, or ask the cluster's administrator which ones exist"},
	{name: "runtime-class-not-found", problem: lasting, reason: ReasonFailedCreate, means: MeansMissingRuntimeClass,
		text:    compile(`RuntimeClass "([^"]+)" not found`),
		message: `RuntimeClass "${1}" does not exist`,
		advice:  "correct runtimeClassName, or ask the cluster's administrator which ones exist"},
	{name: "expansion-not-allowed", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`only dynamically provisioned pvc can be resized`),
		message: "its storage class does not allow volumes to grow",
		advice:  "set the former size, or ask the cluster's administrator to set allowVolumeExpansion of the storage class"},
	{name: "namespace-terminating", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`in namespace (\S+) because it is being terminated`),
		message: `namespace "${1}" is being deleted`,
		advice:  "use another namespace, or wait until it is gone and create it again",
		late:    "use another namespace, or find out why the deletion of this one does not end"},
	{name: "etcd-full", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`database space exceeded`),
		message: "the database of the API server is full",
		advice:  "ask the cluster's administrator"},
	{name: "etcd-request-too-large", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`etcdserver: request is too large`),
		message: "the object is larger than the database of the API server allows",
		advice:  "make the spec smaller"},
	{name: "admission-not-ready", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`^not yet ready to handle request`),
		message: "the API server has not loaded its rules for admission yet",
		advice:  "wait", late: administrator},
	{name: "apiserver-overloaded", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`has received too many requests`),
		message: "the API server is overloaded",
		advice:  administratorLater, late: administrator},
	{name: "apiserver-timeout", problem: passing, reason: ReasonFailedCreate,
		text:    compile(`etcdserver: |unable to return a response in time|could not be completed at this time|client connection lost|TLS handshake timeout|the server is currently unable|quota evaluation timed out|Too many requests|connection refused|context deadline exceeded`),
		message: "the API server did not answer in time",
		advice:  administratorLater, late: administrator},
	{name: "controller-forbidden", problem: lasting, reason: ReasonFailedCreate,
		text:    compile(`User "([^"]+)" (cannot .*)`),
		message: `user "${1}" ${2}`,
		advice:  "ask the cluster's administrator for the permission"},
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
	for i := range creationRules { // the inner errors can be those of webhooks and policies
		r := &creationRules[i]
		if got, ok := r.explain(text, hidden, limitOf(r.reason, maxQuoted)); ok {
			cause.Reason, cause.Transient, cause.Means = r.reason, got.transient, got.means
			cause.Message, cause.Advice, cause.LateAdvice = what+": "+got.message, got.advice, got.late
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
	cause.Time, cause.Since = since, since
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
		cause.Reason, cause.Advice, cause.Message, cause.Means = ReasonInvalidSpec, "correct the field", what, 0
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
