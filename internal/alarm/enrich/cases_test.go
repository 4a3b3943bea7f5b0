package enrich_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// reported is what a user has reported in public: a pod, and a Warning about it or about its owner.
type reported struct {
	// spec and status are those of the pod, in YAML. A time AGO is before the test.
	spec, status string
	reason, note string
	// container has the Event, if it is set.
	container string
	// says must be in the cause, saysNot must not. Without says, there is none.
	says, saysNot []string
}

const registry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

var reportedPods = map[string]reported{
	"an init container of Istio ends with code 126": {
		spec: `{nodeName: node-0, initContainers: [{name: istio-validation, image: a}], containers: [{name: cart, image: a}]}`,
		status: `{phase: Pending, initContainerStatuses: [{name: istio-validation, image: a, imageID: "", ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}},
lastState: {terminated: {exitCode: 126, reason: Error, startedAt: AGO, finishedAt: AGO}}}], containerStatuses: [{name: cart, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: PodInitializing}}}]}`,
		reason: "BackOff", note: "Back-off restarting failed container istio-validation in pod p_ns(u)", container: "istio-validation",
		says: []string{`container "istio-validation" ended with exit code 126`, "check its log"}, saysNot: []string{"command and args", "a shell"},
	},
	"the token of the registry has expired": {
		spec: `{nodeName: node-0, imagePullSecrets: [{name: ecr}], containers: [{name: api, image: ` + registry + `/shop/api:1.4}]}`,
		status: `{phase: Pending, containerStatuses: [{name: api, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ImagePullBackOff,
message: 'Back-off pulling image "` + registry + `/shop/api:1.4": ErrImagePull: failed to pull image "` + registry + `/shop/api:1.4": Error response from daemon: Head "https://` + registry + `/v2/shop/api/manifests/1.4": denied: Your authorization token has expired. Reauthenticate and try again.'}}}]}`,
		reason: "Failed", note: "Error: ImagePullBackOff", container: "api",
		says: []string{"authorization token has expired", "ecr"}, saysNot: []string{"imagePullSecrets names a Secret"},
	},
	"a Secret that does not exist yet": {
		spec:   `{nodeName: node-0, containers: [{name: app, image: a, env: [{name: PW, valueFrom: {secretKeyRef: {name: db, key: password}}}]}]}`,
		status: `{phase: Pending, containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]}`,
		reason: "Failed", note: `Error: secret "db" not found`, container: "app",
		says: []string{`Secret "db" does not exist`, "if a controller creates it, find out why it has not"},
	},
	"a slow start within the time of its startup probe": {
		spec:   `{nodeName: node-0, containers: [{name: erp, image: a, ports: [{containerPort: 8080}], startupProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 10, failureThreshold: 60}}]}`,
		status: `{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: erp, image: a, imageID: "", ready: false, started: false, restartCount: 0, state: {running: {startedAt: AGO}}}]}`,
		reason: "Unhealthy", note: `Startup probe failed: Get "http://10.12.3.9:8080/actuator/health": dial tcp 10.12.3.9:8080: connect: connection refused`, container: "erp",
	},
	"a volume of a pod on a node that is off": {
		spec:   `{nodeName: node-0, containers: [{name: app, image: a}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`,
		status: `{phase: Pending, containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]}`,
		reason: "FailedAttachVolume", note: `Multi-Attach error for volume "pv" Volume is already used by pod(s) demo-5fc4db875-7csx6`,
		says: []string{"pods on another node use it: demo-5fc4db875-7csx6", "if one of them does not end, check its node"},
	},
	"new nodes keep the taint uninitialized": {
		spec: `{containers: [{name: app, image: a}]}`,
		status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: AGO,
message: '0/2 nodes are available: 2 node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}.'}]}`,
		reason: "FailedScheduling", note: "0/2 nodes are available: 2 node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}.",
		says: []string{"cloud-controller-manager"}, saysNot: []string{"toleration", "wait until the nodes are ready"},
	},
	"one pod for each node": {
		spec: `{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: dns}}, topologyKey: kubernetes.io/hostname}]}}, containers: [{name: app, image: a}]}`,
		status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: AGO,
message: "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."}]}`,
		reason: "FailedScheduling", note: "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
		says: []string{"let a rollout end old pods first (maxUnavailable: 1)"}, saysNot: []string{"wait"},
	},
	"initdb refuses its directory": {
		spec: `{nodeName: node-0, containers: [{name: postgres, image: a}]}`,
		status: `{phase: Running, containerStatuses: [{name: postgres, image: a, imageID: "", ready: false, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}},
lastState: {terminated: {exitCode: 1, reason: Error, startedAt: AGO, finishedAt: AGO}}}]}`,
		reason: "BackOff", note: "Back-off restarting failed container postgres in pod p_ns(u)", container: "postgres",
		says: []string{"ended with exit code 1", "check its log"},
	},
}

// What users have reported has the right cause in an alarm too, or lacks what an alarm cannot read.
func TestReportedPodsHaveTheRightCauseInAlarms(t *testing.T) {
	s := newFixture(t, nil)
	s.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}})
	ago := `"` + time.Now().Add(-40*time.Second).UTC().Format(time.RFC3339) + `"`
	number := 0
	for name, tc := range reportedPods {
		number++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "p-" + string(rune('a'+number)), Labels: map[string]string{"app": "dns"}}}
		if err := yaml.UnmarshalStrict([]byte(tc.spec), &pod.Spec); err != nil {
			t.Fatal(name, err)
		}
		s.create(t, pod)
		pod.Status = corev1.PodStatus{}
		if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(tc.status, "AGO", ago)), &pod.Status); err != nil {
			t.Fatal(name, err)
		}
		if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(name, err)
		}
		e := s.warning(pod, "Warning", tc.reason)
		e.Note = tc.note
		if tc.container != "" {
			e.Regarding.FieldPath = "spec.containers{" + tc.container + "}"
			if len(pod.Spec.InitContainers) > 0 {
				e.Regarding.FieldPath = "spec.initContainers{" + tc.container + "}"
			}
		}
		checkCause(t, name, s.Context(t.Context(), e), tc.says, tc.saysNot)
	}
}

func checkCause(t *testing.T, name string, got alarm.Context, says, saysNot []string) {
	t.Helper()
	cause := got.Object.Cause
	if !got.Resolved || len(says) == 0 && cause != "" {
		t.Errorf("%s: resolved=%t, cause %q", name, got.Resolved, cause)
	}
	for _, text := range says {
		if !strings.Contains(cause, text) {
			t.Errorf("%s: %q is missing in %q", name, text, cause)
		}
	}
	for _, text := range saysNot {
		if strings.Contains(cause, text) {
			t.Errorf("%s: it says %q: %q", name, text, cause)
		}
	}
}

// The same for Warnings about other objects.
func TestReportedWarningsOfOtherKindsHaveTheRightCauseInAlarms(t *testing.T) {
	s := newFixture(t, nil)
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "game"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "game"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "a"}}}}
	prefix := networkingv1.PathTypePrefix
	objects := map[string]client.Object{
		"apps/v1 ReplicaSet": &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}},
		"v1 Service":         &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}},
		"networking.k8s.io/v1 Ingress": &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "game", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}}},
		}}}}},
	}
	uids := map[string]types.UID{}
	for kind, o := range objects {
		s.create(t, o)
		uids[kind] = o.GetUID()
	}
	for name, tc := range map[string]struct {
		kind, reason, note string
		says, saysNot      []string
	}{
		"a webhook that must admit its own pods": {
			"apps/v1 ReplicaSet", "FailedCreate", `Error creating: Internal error occurred: failed calling webhook "validate.policy.svc-fail": failed to call webhook: Post "https://policy-svc.ns.svc:443/validate?timeout=10s": no endpoints available for service "policy-svc"`,
			[]string{`no pod of admission webhook "validate.policy.svc-fail" is ready`}, []string{"caBundle"},
		},
		"a Service without a subnet": {
			"v1 Service", "FailedBuildModel", "Failed build model due to unable to resolve at least one subnet (0 match VPC and tags: [kubernetes.io/role/internal-elb])", nil, nil,
		},
		"an Ingress without a subnet": {
			"networking.k8s.io/v1 Ingress", "FailedBuildModel", "Failed build model due to couldn't auto-discover subnets: unable to resolve at least one subnet (0 match VPC and tags: [kubernetes.io/role/elb])", nil, nil,
		},
	} {
		version, kind, _ := strings.Cut(tc.kind, " ")
		e := event(s.namespace, alarm.Reference{APIVersion: version, Kind: kind, Namespace: s.namespace, Name: "game", UID: string(uids[tc.kind])})
		e.Type, e.Reason, e.Note = "Warning", tc.reason, tc.note
		checkCause(t, name, s.Context(t.Context(), e), tc.says, tc.saysNot)
	}
}
