package diagnosis

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestFailedCreateEvents(t *testing.T) {
	set := Object{"StatefulSet", "nb"}
	const inSet = "create Pod nb-0 in StatefulSet nb failed error: "
	const podSecurity = `pods "nb-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "notebook" must set securityContext.runAsNonRoot=true)`
	const sentencePodSecurity = `the pod cannot be created: the namespace's Pod Security level restricted:latest forbids it: runAsNonRoot != true (pod or container "notebook" must set securityContext.runAsNonRoot=true): change the fields named in parentheses`
	const full = `the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 4: `
	refused := func(reason, sentence string, transient bool) wantCause {
		return wantCause{reason: reason, object: set, sentence: sentence, transient: transient}
	}
	for name, tc := range map[string]struct {
		note   string
		quotas []corev1.ResourceQuota
		want   wantCause
	}{
		"quota":                             {textQuota, nil, refused("QuotaExceeded", full+"delete or scale down a workload, or ask for a larger quota", true)},
		"quota with its present usage":      {textQuota, []corev1.ResourceQuota{quota("team", "5", "5")}, refused("QuotaExceeded", `the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 5 of 5: delete or scale down a workload, or ask for a larger quota`, true)},
		"quota with room by now":            {textQuota, []corev1.ResourceQuota{quota("team", "5", "4")}, refused("QuotaExceeded", `the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 5: it has room now; the next attempt follows within 17 minutes`, true)},
		"usage of another quota is ignored": {textQuota, []corev1.ResourceQuota{quota("other", "5", "4")}, refused("QuotaExceeded", full+"delete or scale down a workload, or ask for a larger quota", true)},
		"request larger than the quota":     {inSet + `pods "nb-0" is forbidden: exceeded quota: team, requested: requests.cpu=64, used: requests.cpu=0, limited: requests.cpu=8`, nil, refused("QuotaExceeded", `the pod cannot be created: ResourceQuota "team" is exceeded: requests.cpu: requested 64, used 0 of 8: the request exceeds the whole quota; request less, or ask for a larger quota`, false)},
		"quota requires limits": {inSet + `pods "nb-0" is forbidden: failed quota: team: must specify limits.cpu for: notebook`, nil,
			refused("AdmissionDenied", `the pod cannot be created: ResourceQuota "team" requires values that are not set: limits.cpu for: notebook: set them in resources`, false)},
		"limit range": {inSet + `pods "nb-0" is forbidden: maximum memory usage per Container is 1Gi, but limit is 4Gi`, nil,
			refused("AdmissionDenied", "the pod cannot be created: a LimitRange of the namespace forbids it: maximum memory usage per Container is 1Gi, but limit is 4Gi: change resources", false)},
		"Pod Security":               {inSet + podSecurity, nil, refused("AdmissionDenied", sentencePodSecurity, false)},
		"Pod Security, a ReplicaSet": {"Error creating: " + podSecurity, nil, refused("AdmissionDenied", sentencePodSecurity, false)},
		"policy": {inSet + `pods "nb-0" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'all' denied request: image tags are wantCause`, nil,
			refused("AdmissionDenied", `the pod cannot be created: admission policy "no-latest" forbids it: image tags are wantCause: change the spec accordingly, or ask the cluster's administrator`, false)},
		"webhook": {inSet + `admission webhook "check.example.com" denied the request: no`, nil,
			refused("AdmissionDenied", `the pod cannot be created: admission webhook "check.example.com" forbids it: no: change the spec accordingly, or ask the cluster's administrator`, false)},
		"webhook does not respond": {inSet + `Internal error occurred: failed calling webhook "check.example.com": failed to call webhook: Post "https://x.y.svc:443/": context deadline exceeded`, nil,
			refused("FailedCreate", `the pod cannot be created: admission webhook "check.example.com" does not answer: wait; if the problem persists, ask the cluster's administrator`, true)},
		"service account": {inSet + `pods "nb-0" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`, nil,
			refused("FailedCreate", `the pod cannot be created: service account "robot" does not exist: create it, or correct serviceAccountName`, false)},
		"priority class": {inSet + `pods "nb-0" is forbidden: no PriorityClass with name urgent was found`, nil,
			refused("FailedCreate", `the pod cannot be created: PriorityClass "urgent" does not exist: correct priorityClassName, or ask the cluster's administrator which ones exist`, false)},
		"invalid": {inSet + `Pod "nb-0" is invalid: spec.containers[0].image: Required value`, nil,
			refused("FailedCreate", `the pod cannot be created: spec.containers[0].image: Required value: correct the field`, false)},
		"unknown error": {inSet + `the moon is full`, nil, refused("FailedCreate", `the pod cannot be created: the moon is full: if the spec is correct, ask the cluster's administrator`, false)},
		"a claim": {inSet + `failed to create PVC home-nb-0: persistentvolumeclaims "home-nb-0" is forbidden: exceeded quota: team, requested: requests.storage=9Gi, used: requests.storage=5Gi, limited: requests.storage=10Gi`, nil,
			refused("QuotaExceeded", `claim "home-nb-0" cannot be created: ResourceQuota "team" is exceeded: requests.storage: requested 9Gi, used 5Gi of 10Gi: request less, or remove something else`, true)},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnose(Workload{Events: []Event{setEvent(10, tc.note)}})
			d.Complete(fakeLookup{quotas: tc.quotas})
			tc.want.check(t, d)
		})
	}
}

func TestTheTextOfADenialIsComplete(t *testing.T) {
	restricted := func(container string) string {
		return `allowPrivilegeEscalation != false (container "` + container + `" must set securityContext.allowPrivilegeEscalation=false), ` +
			`unrestricted capabilities (container "` + container + `" must set securityContext.capabilities.drop=["ALL"]), ` +
			`runAsNonRoot != true (pod or container "` + container + `" must set securityContext.runAsNonRoot=true), ` +
			`seccompProfile (pod or container "` + container + `" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`
	}
	for name, tc := range map[string]struct{ note, want string }{
		"Pod Security, one container": {`pods "web-" is forbidden: violates PodSecurity "restricted:latest": ` + restricted("web"),
			"the pod cannot be created: the namespace's Pod Security level restricted:latest forbids it: " + restricted("web")},
		"Pod Security, more than an Event holds": {`pods "web-" is forbidden: violates PodSecurity "restricted:latest": ` + restricted("a") + ", " + restricted("b") + ", " + restricted("c"),
			"the pod cannot be created: the namespace's Pod Security level restricted:latest forbids it: " + restricted("a") + ", " + restricted("b") + ", " + restricted("c")},
		"a webhook": {`admission webhook "check.example.com" denied the request: ` + restricted("web"),
			`the pod cannot be created: admission webhook "check.example.com" forbids it: ` + restricted("web")},
	} {
		t.Run(name, func(t *testing.T) {
			cause := FromCreateFailure(Object{"ReplicaSet", "web"}, tc.note)
			if cause.Reason != ReasonAdmissionDenied || cause.Message != tc.want {
				t.Errorf("%s: %s", cause.Reason, cause.Message)
			}
			checkLimits(t, &cause)
		})
	}
}

func TestFailedCreateIsIgnoredOnceThePodExists(t *testing.T) {
	ofReplicaSet := func(e Event) Event { e.Regarding = Object{"ReplicaSet", "web-1"}; return e }
	const note = `Error creating: pods "web-1-" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`
	overQuota := func(o Object) wantCause {
		return wantCause{reason: "QuotaExceeded", object: o, transient: true,
			sentence: `the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 4: delete or scale down a workload, or ask for a larger quota`}
	}
	set, replicas := Object{"StatefulSet", "nb"}, Object{"ReplicaSet", "web-1"}
	run(t, map[string]diagnoseCase{
		"the pod of that name exists":                {Workload{Pods: pods(newPod(ready)), Events: []Event{setEvent(-10, textQuota)}}, wantCause{}},
		"only another pod exists":                    {Workload{Pods: pods(newPod(ready, named("nb-1", "b"))), Events: []Event{setEvent(-10, textQuota)}}, overQuota(set)},
		"a pod was created before the Event":         {Workload{Pods: pods(newPod(ready)), Events: []Event{ofReplicaSet(setEvent(10, note))}}, overQuota(replicas)},
		"a pod was created after the Event":          {Workload{Pods: pods(newPod(ready)), Events: []Event{ofReplicaSet(setEvent(-10, note))}}, wantCause{}},
		"no time, and a pod exists":                  {Workload{Pods: pods(newPod(ready)), Events: []Event{timeless(ofReplicaSet(setEvent(10, note)))}}, wantCause{}},
		"no time, and no pod":                        {Workload{Events: []Event{timeless(ofReplicaSet(setEvent(10, note)))}}, overQuota(replicas)},
		"the last Event counts, not the most severe": {Workload{Events: []Event{setEvent(1, "create Pod nb-0 in StatefulSet nb failed error: admission webhook \"w\" denied the request"), setEvent(10, textQuota)}}, overQuota(set)},
	})
}

func TestFailedCreateOfAnEarlierControllerIsIgnored(t *testing.T) {
	of := func(uid types.UID, e Event) Event { e.UID = uid; return e }
	refused := wantCause{reason: "QuotaExceeded", object: Object{"StatefulSet", "nb"}, transient: true,
		sentence: `the pod cannot be created: ResourceQuota "team" is exceeded: pods: requested 1, used 4 of 4: delete or scale down a workload, or ask for a larger quota`}
	events := []Event{of("former", setEvent(10, textQuota))}
	run(t, map[string]diagnoseCase{
		"earlier controller of the name": {Workload{Controllers: []types.UID{"set"}, Events: events}, wantCause{}},
		"no controller exists":           {Workload{Controllers: []types.UID{}, Events: events}, wantCause{}},
		"this and an earlier controller": {Workload{Controllers: []types.UID{"set"}, Events: append(events, of("set", setEvent(5, textQuota)))}, refused},
		"Event without a UID":            {Workload{Controllers: []types.UID{"set"}, Events: []Event{setEvent(10, textQuota)}}, refused},
		"controllers unknown":            {Workload{Events: events}, refused},
	})
}

func TestFromAPIError(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "nb", field.ErrorList{
		field.Required(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), ""),
		field.Invalid(field.NewPath("spec", "replicas"), -1, "must be positive"),
	})
	policy := apierrors.NewForbidden(pods, "nb", errors.New(`ValidatingAdmissionPolicy 'p' denied request: no`))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	terminating := apierrors.NewForbidden(pods, "nb", errors.New("unable to create new content in namespace x because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err              error
		reason, sentence string // empty: not terminal
	}{
		"quota": {
			apierrors.NewForbidden(pods, "nb", errors.New("exceeded quota: team, requested: count/statefulsets.apps=1, used: count/statefulsets.apps=3, limited: count/statefulsets.apps=3")),
			"QuotaExceeded", `StatefulSet "nb" is rejected: ResourceQuota "team" is exceeded: count/statefulsets.apps: requested 1, used 3 of 3: delete statefulsets.apps that you do not need, or ask for a larger quota`,
		},
		"policy with the reason Invalid":  {policy, "AdmissionDenied", `StatefulSet "nb" is rejected: admission policy "p" forbids it: no: change the spec accordingly, or ask the cluster's administrator`},
		"Pod Security":                    {apierrors.NewForbidden(pods, "nb", errors.New(`violates PodSecurity "baseline:v1": host namespaces (hostNetwork=true)`)), "AdmissionDenied", `StatefulSet "nb" is rejected: the namespace's Pod Security level baseline:v1 forbids it: host namespaces (hostNetwork=true): change the fields named in parentheses`},
		"webhook":                         {apierrors.NewBadRequest(`admission webhook "w" denied the request: no`), "AdmissionDenied", `StatefulSet "nb" is rejected: admission webhook "w" forbids it: no: change the spec accordingly, or ask the cluster's administrator`},
		"invalid":                         {invalid, "InvalidSpec", `StatefulSet "nb" is rejected: spec.template.spec.containers[0].image: Required value; spec.replicas: Invalid value: -1: must be positive: correct the fields`},
		"missing permission":              {apierrors.NewForbidden(pods, "nb", errors.New(`User "system:serviceaccount:bongsu:bongsu" cannot create resource "pods" in API group "" in the namespace "x"`)), "FailedCreate", `StatefulSet "nb" is rejected: user "system:serviceaccount:bongsu:bongsu" cannot create resource "pods" in API group "" in the namespace "x": ask the cluster's administrator for the permission`},
		"too large":                       {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), "FailedCreate", `StatefulSet "nb" is rejected: the request is larger than the limit of 3145728 bytes: make the spec smaller`},
		"conflict":                        {apierrors.NewConflict(pods, "nb", errors.New("x")), "", ""},
		"deleted before its update":       {apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "nb"), "", ""},
		"namespace does not exist":        {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nb"), "FailedCreate", `StatefulSet "nb" is rejected: namespaces "nb" not found: if the spec is correct, ask the cluster's administrator`},
		"exists":                          {apierrors.NewAlreadyExists(pods, "nb"), "", ""},
		"too many requests":               {apierrors.NewTooManyRequests("x", 1), "", ""},
		"timeout":                         {apierrors.NewTimeoutError("x", 1), "", ""},
		"webhook does not answer":         {apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: Post "https://w.x.svc:443/?timeout=10s": context deadline exceeded`)), "FailedCreate", `StatefulSet "nb" is rejected: admission webhook "w.example.com" does not answer: wait; if the problem persists, ask the cluster's administrator`},
		"webhook with an old certificate": {apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: Post "https://w.x.svc:443/": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-01T10:00:00Z is after 2026-10-01T10:00:00Z`)), "FailedCreate", `StatefulSet "nb" is rejected: the certificate of admission webhook "w.example.com" has expired: ask the cluster's administrator to renew it`},
		"webhook without a Service":       {apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: Post "https://w.x.svc:443/": service "w" not found`)), "FailedCreate", `StatefulSet "nb" is rejected: Service "w" of admission webhook "w.example.com" does not exist: ask the cluster's administrator to install the webhook again or to delete its configuration`},
		"server":                          {apierrors.NewInternalError(errors.New("x")), "", ""},
		"unavailable":                     {apierrors.NewServiceUnavailable("x"), "", ""},
		"namespace is terminating":        {terminating, "", ""},
		"no response":                     {context.DeadlineExceeded, "", ""},
		"none":                            {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, terminal := FromAPIError(Object{"StatefulSet", "nb"}, tc.err)
			if terminal != (tc.reason != "") {
				t.Fatalf("terminal: %v, %+v", terminal, got)
			}
			if diff := cmp.Diff([]string{tc.reason, tc.sentence}, []string{got.Reason, got.Sentence()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
