package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	podsecurityapi "k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// confinement is a namespace with objects of the operator (named ours) and of others (named
// theirs). Requests run as the operator with all permissions, so that only policies limit
// them.
type confinement struct {
	*cluster.Cluster
	*WithT
	t         *testing.T
	namespace string
	config    *rest.Config
	client    client.Client
}

func newConfinement(t *testing.T) *confinement {
	t.Helper()
	c := cluster.Shared(t)
	s := &confinement{Cluster: c, WithT: NewWithT(t), t: t, namespace: c.Namespace(t, nil), config: rest.CopyConfig(c.RESTConfig())}
	s.config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:bongsu-system:bongsu", Groups: []string{"system:masters"}}
	var err error
	s.client, err = cluster.ClientFor(s.config)
	s.Expect(err).NotTo(HaveOccurred())
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: s.meta("default", nil)}, // no controller creates it
		s.secret("theirs", nil), s.secret("copy", asCopy("rule")), s.secret("adopted", asAdopted), s.secret("edited", asReleased), s.secret("token", asChild),
		s.deployment("theirs", confinedPod, nil), s.deployment("ours", confinedPod, asChild), s.deployment("retained", confinedPod, asRetained),
		s.deployment("changed", asOthersChanged, asChild),
		s.service("theirs", nil), s.service("ours", asChild), s.changedService(), s.changedIngress(),
		s.claim("theirs", nil), s.pod("theirs", nil), s.pod("ours", asChild),
		cluster.Manifest(t, "Jupyter", s.namespace, "it", "{}"),
		cluster.Manifest(t, "AppService", s.namespace, "it", "size: 1"),
		cluster.Manifest(t, "SecretShare", s.namespace, "it", "source: {names: [theirs]}\ntargets: {}"),
	} {
		s.Expect(c.Client.Create(t.Context(), o)).To(Succeed(), o.GetName())
	}
	s.Expect(c.Client.Create(t.Context(), s.secret("released", asReleased), client.FieldOwner(share.FieldOwner))).To(Succeed())
	return s
}

func (s *confinement) meta(name string, mark func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}
	if mark != nil {
		mark(&meta)
	}
	return meta
}

func asCopy(rule string) func(*metav1.ObjectMeta) {
	return func(meta *metav1.ObjectMeta) {
		meta.Annotations = map[string]string{"bongsu.io/rule-uid": rule, "bongsu.io/source-uid": "source"}
	}
}

func asAdopted(meta *metav1.ObjectMeta) {
	meta.Annotations["bongsu.io/adopt"] = "ClusterSecretShare/rule"
}

func asReleased(meta *metav1.ObjectMeta) {
	meta.Annotations["bongsu.io/released-by"] = "SecretShare/shop/rule@1"
}

func asChild(meta *metav1.ObjectMeta) {
	meta.Labels["app.kubernetes.io/managed-by"] = "bongsu"
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "bongsu.io/v1alpha1", Kind: "Jupyter", Name: "it", UID: "1", Controller: new(true)}}
}

func asRetained(meta *metav1.ObjectMeta) {
	meta.Labels["app.kubernetes.io/managed-by"] = "bongsu"
	meta.Annotations["bongsu.io/owner-uid"] = "1"
}

// withoutLabel is a child whose label someone has removed.
func withoutLabel(meta *metav1.ObjectMeta) {
	asChild(meta)
	meta.Labels = nil
}

func ofOthers(meta *metav1.ObjectMeta) {
	asChild(meta)
	meta.OwnerReferences[0].APIVersion = "example.com/v1"
}

func (s *confinement) secret(name string, mark func(*metav1.ObjectMeta)) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: s.meta(name, mark), Data: map[string][]byte{"a": []byte("b")}}
}

func (s *confinement) typed(kind corev1.SecretType) *corev1.Secret {
	secret := s.secret("new", asCopy("rule"))
	secret.Type = kind
	if kind == corev1.SecretTypeServiceAccountToken {
		secret.Annotations[corev1.ServiceAccountNameKey] = "default"
	}
	return secret
}

// confinedPod is a pod as the operator creates it.
func confinedPod(pod *corev1.PodSpec) {
	*pod = corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a", SecurityContext: &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}}}}
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}},
	}
	pod.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func template(change func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	confinedPod(&pod.Spec)
	change(&pod.Spec)
	return pod
}

func (s *confinement) deployment(name string, change func(*corev1.PodSpec), mark func(*metav1.ObjectMeta)) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: s.meta(name, mark), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template(change),
	}}
}

func (s *confinement) job(change func(*corev1.PodSpec), mark func(*metav1.ObjectMeta)) *batchv1.Job {
	pod := template(change)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: s.meta("new", mark), Spec: batchv1.JobSpec{Template: pod}}
}

func (s *confinement) set(change func(*corev1.PodSpec), mark func(*metav1.ObjectMeta)) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: s.meta("new", mark), Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template(change),
	}}
}

func (s *confinement) service(name string, mark func(*metav1.ObjectMeta)) *corev1.Service {
	return &corev1.Service{ObjectMeta: s.meta(name, mark), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

func (s *confinement) claim(name string, mark func(*metav1.ObjectMeta)) *corev1.PersistentVolumeClaim {
	spec := `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: s.meta(name, mark)}
	s.Expect(json.Unmarshal([]byte(spec), claim)).To(Succeed())
	return claim
}

func (s *confinement) ingress(mark func(*metav1.ObjectMeta)) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: s.meta("new", mark), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "a.example"}}}}
}

// asOthersChanged is a pod to which a user added what the operator must not add.
func asOthersChanged(pod *corev1.PodSpec) {
	confinedPod(pod)
	pod.HostPID = true
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "logs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}})
	pod.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"}
	pod.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "a.example", Port: intstr.FromInt32(80)}}}
	pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}})
}

// changedService is a Service that a user has exposed.
func (s *confinement) changedService() *corev1.Service {
	service := s.service("changed", asChild)
	service.Spec.Type, service.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"203.0.113.7"}
	return service
}

// changedIngress is an Ingress that a user has annotated.
func (s *confinement) changedIngress() *networkingv1.Ingress {
	ingress := s.ingress(asChild)
	ingress.Name, ingress.Annotations["nginx.example/snippet"] = "changed", "a"
	ingress.Spec.DefaultBackend = backend("a")
	return ingress
}

// accessAnnotations returns the annotations of an Ingress that the spec of a Jupyter can set.
func accessAnnotations(t *testing.T) (keys []string) {
	t.Helper()
	crd, err := os.ReadFile("../../config/crd/bongsu.io_jupyters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(crd), "rule: self.all(k, k in [")
	rule, _, _ = strings.Cut(rule, "]")
	for quoted := range strings.SplitSeq(rule, ",") {
		keys = append(keys, strings.Trim(quoted, "' \n"))
	}
	if len(keys) < 10 {
		t.Fatalf("the rule of spec.access.annotations lists %q", keys)
	}
	return keys
}

func backend(service string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func (s *confinement) pod(name string, mark func(*metav1.ObjectMeta)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: s.meta(name, mark)}
	confinedPod(&pod.Spec)
	return pod
}

// request is a request of the operator. It changes nothing.
type request = func(context.Context) error

func (s *confinement) create(o client.Object) request {
	return func(ctx context.Context) error { return s.client.Create(ctx, o, client.DryRunAll) }
}

func (s *confinement) remove(o client.Object) request {
	return func(ctx context.Context) error { return s.client.Delete(ctx, o, client.DryRunAll) }
}

func (s *confinement) patch(o client.Object, patch string) request {
	return func(ctx context.Context) error {
		return s.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
}

// ofKind is an object named "it" of our kinds.
func (s *confinement) ofKind(kind string) client.Object {
	return cluster.Manifest(s.t, kind, s.namespace, "it", "{}")
}

func (s *confinement) in(namespace string, o client.Object) client.Object {
	o.SetNamespace(namespace)
	return o
}

// exec requests a subresource of the pod ours, which no node runs.
func (s *confinement) connect(namespace, subresource string) request {
	return func(ctx context.Context) error {
		clients, err := kubernetes.NewForConfig(s.config)
		if err != nil {
			return err
		}
		return clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("ours").SubResource(subresource).
			Param("command", "true").Param("container", "a").Do(ctx).Error()
	}
}

func (s *confinement) evict(namespace string) request {
	return func(ctx context.Context) error {
		pod := s.pod("ours", nil)
		pod.Namespace = namespace
		return s.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: namespace}}, client.DryRunAll)
	}
}

const (
	kubeSystem = metav1.NamespaceSystem
	own        = "bongsu-system"
)

// Parts of the messages of the policies.
const (
	createsOnlyCopies   = "creates only copies of Secrets"
	changesOnlyCopies   = "changes only copies of Secrets"
	keepsRule           = "releases it with its data unchanged"
	createsNoTokens     = "creates no tokens of service accounts"
	createsOnlyChildren = "creates only objects with its label"
	changesOnlyChildren = "changes only objects that belong"
	takesNothing        = "does not take an object"
	deletesPods         = "only deletes pods"
	externalAddress     = "gives no Service an external address"
	standard            = "Pod Security Standard restricted forbids"
	protects            = "writes nothing in the protected namespace kube-system"
	setsOnlyAccess      = "only the annotations of an Ingress that spec.access"
	protectsOwn         = "writes nothing for users in its own namespace bongsu-system"
)

// allowed means that no policy refuses the request.
const allowed = ""

// expectRequests sends requests, and compares the policy that refuses each.
func (s *confinement) expectRequests(table map[string]requestCase) {
	for name, tc := range table {
		s.t.Run(name, func(t *testing.T) {
			err := tc.request(t.Context())
			switch {
			case tc.refusal != allowed:
				NewWithT(t).Expect(err).To(And(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring(tc.refusal))))
			case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
				t.Error(err)
			}
		})
	}
}

type requestCase struct {
	request
	refusal string
}

// takeBack returns a patch that makes a copy of a released Secret again.
func takeBack(rule, namespaceUID, more string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"bongsu.io/released-by":null,"bongsu.io/rule":%q,"bongsu.io/namespace-uid":%q,"bongsu.io/rule-uid":"a","bongsu.io/source-uid":"b"}},%s}`,
		rule, namespaceUID, more)
}

func TestTheOperatorWritesOnlyCopiesAndTokens(t *testing.T) {
	s := newConfinement(t)
	s.expectRequests(map[string]requestCase{
		"a new copy":                         {s.create(s.secret("new", asCopy("rule"))), allowed},
		"a new token":                        {s.create(s.secret("new", asChild)), allowed},
		"a new Secret":                       {s.create(s.secret("new", nil)), createsOnlyCopies},
		"a new Secret of another controller": {s.create(s.secret("new", ofOthers)), createsOnlyCopies},
		"a new copy without a source":        {s.create(s.secret("new", func(m *metav1.ObjectMeta) { m.Annotations["bongsu.io/rule-uid"] = "rule" })), createsOnlyCopies},
		"a token of a service account":       {s.create(s.typed(corev1.SecretTypeServiceAccountToken)), createsNoTokens},
		"a token for nodes":                  {s.create(s.typed("bootstrap.kubernetes.io/token")), createsNoTokens},
		"a record of Helm":                   {s.create(s.typed("helm.sh/release.v1")), createsNoTokens},
		"a certificate":                      {s.create(s.typed("example.com/certificate")), allowed},
		"the data of a copy":                 {s.patch(s.secret("copy", nil), `{"data":{"a":"Yw=="}}`), allowed},
		"the source of a copy":               {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":{"bongsu.io/source-uid":"other"}}}`), allowed},
		"the rule of a copy":                 {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":{"bongsu.io/rule-uid":"other"}}}`), allowed},
		"a copy without a rule":              {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":{"bongsu.io/rule-uid":null}},"data":{"a":"Yw=="}}`), keepsRule},
		"a Secret that is given to a rule": {
			s.patch(s.secret("adopted", nil), `{"metadata":{"annotations":{"bongsu.io/adopt":null,"bongsu.io/rule-uid":"a","bongsu.io/source-uid":"b"}},"data":{"a":"Yw=="}}`), allowed,
		},
		"a given Secret without a rule":       {s.patch(s.secret("adopted", nil), `{"data":{"a":"Yw=="}}`), keepsRule},
		"the deletion of a given Secret":      {s.remove(s.secret("adopted", nil)), allowed},
		"a token without its notebook":        {s.patch(s.secret("token", nil), `{"metadata":{"ownerReferences":null},"data":{"a":"Yw=="}}`), keepsRule},
		"a retained copy":                     {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":null}}`), allowed},
		"a retained copy with other data":     {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":null},"data":{"a":"Yw=="}}`), keepsRule},
		"a retained copy that becomes fixed":  {s.patch(s.secret("copy", nil), `{"metadata":{"annotations":null},"immutable":true}`), keepsRule},
		"a released copy of another rule":     {s.patch(s.secret("released", nil), takeBack("SecretShare/shop/other", "1", `"data":{}`)), changesOnlyCopies},
		"a released copy of a former owner":   {s.patch(s.secret("released", nil), takeBack("SecretShare/shop/rule", "2", `"data":{}`)), changesOnlyCopies},
		"a released copy of a new source":     {s.patch(s.secret("released", nil), takeBack("SecretShare/shop/rule", "1", `"data":{"a":"Yw=="}`)), allowed},
		"an edited Secret with other data":    {s.patch(s.secret("edited", nil), takeBack("SecretShare/shop/rule", "1", `"data":{"a":"Yw=="}`)), changesOnlyCopies},
		"an edited Secret":                    {s.patch(s.secret("edited", nil), takeBack("SecretShare/shop/rule", "1", `"data":{}`)), changesOnlyCopies},
		"an edited Secret that becomes fixed": {s.patch(s.secret("edited", nil), takeBack("SecretShare/shop/rule", "1", `"immutable":true`)), changesOnlyCopies},
		"a released copy without a rule":      {s.patch(s.secret("released", nil), `{"metadata":{"labels":{"a":"b"}}}`), changesOnlyCopies},
		"the deletion of a released copy":     {s.remove(s.secret("released", nil)), changesOnlyCopies},
		"a released copy":                     {s.patch(s.secret("released", nil), takeBack("SecretShare/shop/rule", "1", `"data":{}`)), allowed},
		"the data of a token":                 {s.patch(s.secret("token", nil), `{"data":{"a":"Yw=="}}`), allowed},
		"the data of another Secret":          {s.patch(s.secret("theirs", nil), `{"data":{"a":"Yw=="}}`), changesOnlyCopies},
		"another Secret that becomes a copy":  {s.patch(s.secret("theirs", nil), `{"metadata":{"annotations":{"bongsu.io/rule-uid":"a","bongsu.io/source-uid":"b"}}}`), changesOnlyCopies},
		"a finalizer of another Secret":       {s.patch(s.secret("theirs", nil), `{"metadata":{"finalizers":["a.example/b"]}}`), changesOnlyCopies},
		"the deletion of a copy":              {s.remove(s.secret("copy", nil)), allowed},
		"the deletion of another Secret":      {s.remove(s.secret("theirs", nil)), changesOnlyCopies},
		"a copy in a protected namespace":     {s.create(s.in(kubeSystem, s.secret("new", asCopy("rule")))), protects},
		"a token in a protected namespace":    {s.create(s.in(kubeSystem, s.secret("new", asChild))), protects},
		"a copy in its own namespace":         {s.create(s.in(own, s.secret("new", asCopy("rule")))), protectsOwn},
		"a token in its own namespace":        {s.create(s.in(own, s.secret("new", asChild))), protectsOwn},
	})
}

func TestTheOperatorWritesOnlyItsChildren(t *testing.T) {
	s := newConfinement(t)
	external := s.service("new", asChild)
	external.Spec.ExternalIPs = []string{"203.0.113.7"}
	alias := &corev1.Service{ObjectMeta: s.meta("new", asChild), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.example"}}
	snippet, everywhere, fallback := s.ingress(asChild), s.ingress(asChild), s.ingress(asChild)
	snippet.Annotations["nginx.example/snippet"] = "a"
	everywhere.Spec.Rules[0] = networkingv1.IngressRule{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: *backend("a")}},
	}}}
	fallback.Spec.DefaultBackend = backend("a")
	wildcard, other, alias2, multiline, whole := s.ingress(asChild), s.ingress(asChild), s.ingress(asChild), s.ingress(asChild), s.ingress(asChild)
	wildcard.Spec.Rules[0].Host = "*.example"
	other.Spec.Rules[0].IngressRuleValue = everywhere.Spec.Rules[0].IngressRuleValue
	alias2.Annotations["nginx.ingress.kubernetes.io/server-alias"] = "~.*"
	multiline.Annotations["nginx.ingress.kubernetes.io/proxy-body-size"] = "1g;\nproxy_pass x"
	whole.Spec.Rules[0].HTTP = everywhere.Spec.Rules[0].HTTP.DeepCopy()
	whole.Spec.Rules[0].HTTP.Paths[0].Backend = *backend(whole.Name)
	for _, key := range accessAnnotations(s.t) {
		whole.Annotations[key] = "1"
	}
	s.expectRequests(map[string]requestCase{
		"a new Deployment":                                 {s.create(s.deployment("new", confinedPod, asChild)), allowed},
		"a new Deployment that outlives its owner":         {s.create(s.deployment("new", confinedPod, asRetained)), allowed},
		"a new Deployment without an owner":                {s.create(s.deployment("new", confinedPod, nil)), createsOnlyChildren},
		"a new Deployment of another controller":           {s.create(s.deployment("new", confinedPod, ofOthers)), createsOnlyChildren},
		"a new Deployment without the label":               {s.create(s.deployment("new", confinedPod, withoutLabel)), createsOnlyChildren},
		"a new StatefulSet":                                {s.create(s.set(confinedPod, asChild)), allowed},
		"a new StatefulSet without an owner":               {s.create(s.set(confinedPod, nil)), createsOnlyChildren},
		"a new Job":                                        {s.create(s.job(confinedPod, asRetained)), allowed},
		"a new Job without an owner":                       {s.create(s.job(confinedPod, nil)), createsOnlyChildren},
		"a new DaemonSet":                                  {s.create(&appsv1.DaemonSet{ObjectMeta: s.meta("new", nil), Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template(confinedPod)}}), "no workloads other than"},
		"a DaemonSet with marks":                           {s.create(&appsv1.DaemonSet{ObjectMeta: s.meta("new", asChild), Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template(confinedPod)}}), "no workloads other than"},
		"a new Service":                                    {s.create(s.service("new", asChild)), allowed},
		"a new Service without an owner":                   {s.create(s.service("new", nil)), createsOnlyChildren},
		"a Service with an external address":               {s.create(external), externalAddress},
		"a Service that is an alias":                       {s.create(alias), "only Services of the type ClusterIP"},
		"an external address of a Service":                 {s.patch(s.service("ours", nil), `{"spec":{"externalIPs":["203.0.113.7"]}}`), externalAddress},
		"a port of a Service that others exposed":          {s.patch(s.service("changed", nil), `{"spec":{"ports":[{"port":81}]}}`), allowed},
		"the end of a Service that others exposed":         {s.patch(s.service("changed", nil), `{"spec":{"type":"ClusterIP"}}`), allowed},
		"another address of a Service that others exposed": {s.patch(s.service("changed", nil), `{"spec":{"externalIPs":["203.0.113.7","203.0.113.8"]}}`), externalAddress},
		"the sources of a Service that others exposed":     {s.patch(s.service("changed", nil), `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`), "only Services of the type ClusterIP"},
		"an Ingress with a snippet for its controller":     {s.create(snippet), setsOnlyAccess},
		"an Ingress for all hosts":                         {s.create(everywhere), "only Ingresses for one host"},
		"an Ingress for all hosts of a domain":             {s.create(wildcard), "only Ingresses for one host"},
		"an Ingress for another Service":                   {s.create(other), "only Ingresses for the Service of the same name"},
		"an Ingress with further hosts in an annotation":   {s.create(alias2), setsOnlyAccess},
		"an annotation with a line break":                  {s.create(multiline), setsOnlyAccess},
		"all that spec.access can set":                     {s.create(whole), allowed},
		"an Ingress for what no other takes":               {s.create(fallback), "only Ingresses for one host"},
		"the host of an Ingress that others changed":       {s.patch(s.changedIngress(), `{"spec":{"rules":[{"host":"b.example"}]}}`), allowed},
		"another value of an annotation":                   {s.patch(s.changedIngress(), `{"metadata":{"annotations":{"nginx.example/snippet":"b"}}}`), setsOnlyAccess},
		"another default backend":                          {s.patch(s.changedIngress(), `{"spec":{"defaultBackend":{"service":{"name":"b"}}}}`), "only Ingresses for one host"},
		"a new claim":                                      {s.create(s.claim("new", asRetained)), allowed},
		"a new claim without an owner":                     {s.create(s.claim("new", nil)), createsOnlyChildren},
		"a new Ingress":                                    {s.create(s.ingress(asChild)), allowed},
		"a new Ingress without an owner":                   {s.create(s.ingress(nil)), createsOnlyChildren},
		"the size of a Deployment":                         {s.patch(s.deployment("ours", confinedPod, nil), `{"spec":{"replicas":2}}`), allowed},
		"a Deployment without its label":                   {s.patch(s.deployment("ours", confinedPod, nil), `{"metadata":{"labels":null}}`), allowed},
		"a Deployment that is to outlive its owner":        {s.patch(s.deployment("ours", confinedPod, nil), `{"metadata":{"ownerReferences":null,"annotations":{"bongsu.io/owner-uid":"1"}}}`), allowed},
		"a Deployment that loses its owner":                {s.patch(s.deployment("ours", confinedPod, nil), `{"metadata":{"ownerReferences":null}}`), takesNothing},
		"the size of a retained Deployment":                {s.patch(s.deployment("retained", confinedPod, nil), `{"spec":{"replicas":2}}`), allowed},
		"the size of another Deployment":                   {s.patch(s.deployment("theirs", confinedPod, nil), `{"spec":{"replicas":2}}`), changesOnlyChildren},
		"another Deployment that becomes its own":          {s.patch(s.deployment("theirs", confinedPod, nil), `{"metadata":{"annotations":{"bongsu.io/owner-uid":"1"}}}`), changesOnlyChildren},
		"the deletion of a Deployment":                     {s.remove(s.deployment("ours", confinedPod, nil)), allowed},
		"the deletion of another Deployment":               {s.remove(s.deployment("theirs", confinedPod, nil)), changesOnlyChildren},
		"the selector of another Service":                  {s.patch(s.service("theirs", nil), `{"spec":{"selector":{"a":"b"}}}`), changesOnlyChildren},
		"the deletion of another Service":                  {s.remove(s.service("theirs", nil)), changesOnlyChildren},
		"the deletion of another claim":                    {s.remove(s.claim("theirs", nil)), changesOnlyChildren},
		"the deletion of a pod":                            {s.remove(s.pod("ours", nil)), allowed},
		"the deletion of another pod":                      {s.remove(s.pod("theirs", nil)), deletesPods},
		"a new pod":                                        {s.create(s.pod("new", asChild)), deletesPods},
		"a label of a pod":                                 {s.patch(s.pod("ours", nil), `{"metadata":{"labels":{"a":"b"}}}`), deletesPods},
		"a Deployment in a protected namespace":            {s.create(s.in(kubeSystem, s.deployment("new", confinedPod, asChild))), protects},
		"a Service in a protected namespace":               {s.create(s.in(kubeSystem, s.service("new", asChild))), protects},
		"an Ingress in a protected namespace":              {s.create(s.in(kubeSystem, s.ingress(asChild))), protects},
		"a command in a pod":                               {s.connect(s.namespace, "exec"), allowed},
		"a command in a protected namespace":               {s.connect(kubeSystem, "exec"), protects},
		"a proxy to a protected namespace":                 {s.connect(kubeSystem, "proxy"), protects},
		"an eviction":                                      {s.evict(s.namespace), allowed},
		"an eviction in a protected namespace":             {s.evict(kubeSystem), protects},
		"a Deployment in its own namespace":                {s.create(s.in(own, s.deployment("new", confinedPod, asChild))), protectsOwn},
		"a command in its own namespace":                   {s.connect(own, "exec"), protectsOwn},
		"an eviction in its own namespace":                 {s.evict(own), protectsOwn},
	})
}

// unrestricted are changes of a pod, with a part of the message that refuses each. There is
// at least one for each check of the Pod Security Standard.
func unrestricted() map[string]struct {
	change  func(*corev1.PodSpec)
	refusal string
} {
	type (
		pod       = corev1.PodSpec
		container = corev1.Container
	)
	in := func(change func(*container)) func(*pod) {
		return func(p *pod) { change(&p.Containers[0]) }
	}
	init := func(change func(*container)) func(*pod) {
		return func(p *pod) {
			c := p.Containers[0].DeepCopy()
			c.Name = "init"
			change(c)
			p.InitContainers = append(p.InitContainers, *c)
		}
	}
	http := &corev1.HTTPGetAction{Host: "a.example", Port: intstr.FromInt32(80)}
	tcp := &corev1.TCPSocketAction{Host: "a.example", Port: intstr.FromInt32(80)}
	probe := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	return map[string]struct {
		change  func(*pod)
		refusal string
	}{
		"network of the node":   {func(p *pod) { p.HostNetwork, p.SecurityContext.Sysctls = true, nil }, "hostNetwork"},
		"processes of the node": {func(p *pod) { p.HostPID = true }, "hostPID"},
		"memory of the node":    {func(p *pod) { p.HostIPC = true }, "hostIPC"},
		"a chosen node":         {func(p *pod) { p.NodeName = "a" }, "nodeName a"},
		"files of the node": {func(p *pod) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, "hostPath"},
		"a network file system": {func(p *pod) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/"}}
		}, "hostPath"},
		"a port of the node":  {in(func(c *container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}} }), "hostPort 80 in container a"},
		"a sysctl":            {func(p *pod) { p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}} }, "sysctl kernel.msgmax"},
		"escalation":          {init(func(c *container) { c.SecurityContext.AllowPrivilegeEscalation = new(true) }), "allowPrivilegeEscalation in container init"},
		"no security context": {in(func(c *container) { c.SecurityContext = nil }), "allowPrivilegeEscalation in container a"},
		"the whole of /proc": {func(p *pod) {
			p.HostUsers, p.Containers[0].SecurityContext.ProcMount = new(false), new(corev1.UnmaskedProcMount)
		}, "procMount"},
		"a capability":             {init(func(c *container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"} }), "capability SYS_PTRACE in container init"},
		"the default capabilities": {in(func(c *container) { c.SecurityContext.Capabilities.Drop = nil }), "capabilities.drop without ALL"},
		"root":                     {func(p *pod) { p.SecurityContext.RunAsNonRoot = nil }, "runAsNonRoot"},
		"root in a container":      {init(func(c *container) { c.SecurityContext.RunAsNonRoot = new(false) }), "runAsNonRoot"},
		"user 0":                   {func(p *pod) { p.SecurityContext.RunAsUser = new(int64(0)) }, "runAsUser 0"},
		"all system calls":         {func(p *pod) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined }, "seccompProfile"},
		"all system calls in a container": {init(func(c *container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}), "seccompProfile"},
		"no AppArmor": {func(p *pod) {
			p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}, "appArmorProfile"},
		"no AppArmor in a container": {init(func(c *container) {
			c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}), "appArmorProfile"},
		"a type of SELinux":             {func(p *pod) { p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }, "seLinuxOptions"},
		"a user of SELinux":             {init(func(c *container) { c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{User: "a"} }), "seLinuxOptions"},
		"a role of SELinux":             {init(func(c *container) { c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Role: "a"} }), "seLinuxOptions"},
		"an HTTP probe of another host": {in(func(c *container) { c.LivenessProbe = probe(corev1.ProbeHandler{HTTPGet: http}) }), "host a.example"},
		"a TCP probe of another host":   {in(func(c *container) { c.ReadinessProbe = probe(corev1.ProbeHandler{TCPSocket: tcp}) }), "host a.example"},
		"a startup probe of another host": {init(func(c *container) {
			c.RestartPolicy, c.StartupProbe = new(corev1.ContainerRestartPolicyAlways), probe(corev1.ProbeHandler{TCPSocket: tcp})
		}), "host a.example"},
		"a request to another host at its start": {in(func(c *container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: http}}
		}), "host a.example"},
		"a request to another host at its end": {in(func(c *container) { c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: http}} }), "host a.example"},
	}
}

func TestTheOperatorMakesNoPodThatUsesItsNode(t *testing.T) {
	s := newConfinement(t)
	table := map[string]requestCase{}
	for name, tc := range unrestricted() {
		table["a Deployment with "+name] = requestCase{s.create(s.deployment("new", tc.change, asChild)), tc.refusal}
		table["a StatefulSet with "+name] = requestCase{s.create(s.set(tc.change, asChild)), tc.refusal}
		table["a Job with "+name] = requestCase{s.create(s.job(tc.change, asRetained)), tc.refusal}
	}
	s.expectRequests(table)
}

// The list contains a pod for each of Kubernetes' own checks, and none that the checks allow.
func TestThePolicyForPodsIsThePodSecurityStandard(t *testing.T) {
	evaluator, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[podsecurity.CheckID]bool{
		"windowsHostProcess": true, // the API server refuses it without the node's network
		"privileged":         true, // the API server of the tests refuses it
	}
	for name, tc := range unrestricted() {
		pod := template(tc.change)
		pod.Spec.HostUsers = nil // an API server that does not know the field drops it
		for _, check := range podsecurity.DefaultChecks() {
			newest := check.Versions[len(check.Versions)-1]
			if !newest.CheckPod(&pod.ObjectMeta, &pod.Spec).Allowed {
				covered[check.ID] = true
			}
		}
		restricted := podsecurityapi.LevelVersion{Level: podsecurityapi.LevelRestricted, Version: podsecurityapi.LatestVersion()}
		allowed := podsecurity.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)).Allowed
		if allowed && name != "a chosen node" {
			t.Errorf("the standard allows %s", name)
		}
	}
	for _, check := range podsecurity.DefaultChecks() {
		if !covered[check.ID] {
			t.Errorf("no pod breaks the check %s", check.ID)
		}
	}
}

// The operator can update a workload that others changed, but adds nothing of the kind.
func TestTheOperatorUpdatesWorkloadsThatOthersChanged(t *testing.T) {
	s := newConfinement(t)
	pod := func(name, patch string) request {
		return func(ctx context.Context) error {
			return s.client.Patch(ctx, s.deployment(name, confinedPod, nil), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":`+patch+`}}}`)), client.DryRunAll)
		}
	}
	s.expectRequests(map[string]requestCase{
		"labels of pods":            {s.patch(s.deployment("ours", confinedPod, nil), `{"spec":{"template":{"metadata":{"labels":{"c":"d"}}}}}`), allowed},
		"a restart":                 {s.patch(s.deployment("changed", confinedPod, nil), `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`), allowed},
		"an image":                  {pod("changed", `{"containers":[{"name":"a","image":"b"}]}`), allowed},
		"the end of a capability":   {pod("changed", `{"containers":[{"name":"a","securityContext":{"capabilities":{"add":null}}}]}`), allowed},
		"the end of hostPID":        {pod("changed", `{"hostPID":null}`), allowed},
		"one of two repairs":        {pod("changed", `{"containers":[{"name":"sidecar","securityContext":{"allowPrivilegeEscalation":false}}]}`), allowed},
		"another capability":        {pod("changed", `{"containers":[{"name":"a","securityContext":{"capabilities":{"add":["NET_RAW","SYS_PTRACE"]}}}]}`), "capability SYS_PTRACE in container a"},
		"the capability of another": {pod("changed", `{"containers":[{"name":"sidecar","securityContext":{"capabilities":{"add":["NET_RAW"]}}}]}`), "capability NET_RAW in container sidecar"},
		"another path of the node":  {pod("changed", `{"volumes":[{"name":"logs","hostPath":{"path":"/"}}]}`), "hostPath"},
		"another host":              {pod("changed", `{"containers":[{"name":"a","livenessProbe":{"tcpSocket":{"host":"b.example"}}}]}`), "host b.example"},
		"another port of the node":  {pod("changed", `{"containers":[{"name":"sidecar","ports":[{"containerPort":81,"hostPort":81}]}]}`), "hostPort 81"},
		"the node's memory":         {pod("changed", `{"hostIPC":true}`), "hostIPC"},
		"another container":         {pod("changed", `{"containers":[{"name":"new","image":"a"}]}`), standard},
		"the node's memory for an unchanged Deployment": {pod("ours", `{"hostIPC":true}`), "hostIPC"},
	})
}

func TestTheOperatorIsNoAuthor(t *testing.T) {
	s := newConfinement(t)
	const changesNoSpec, createsNothing = "changes no spec", "creates only the ClusterSecretShare secretsync"
	rule := func(name, source string) client.Object {
		return cluster.Manifest(t, "ClusterSecretShare", "", name, fmt.Sprintf("source: {namespace: %s, type: bongsu.io/a}\ntargets: {}", source))
	}
	s.expectRequests(map[string]requestCase{
		"a finalizer":                     {s.patch(s.ofKind("SecretShare"), `{"metadata":{"finalizers":["bongsu.io/copies"]}}`), allowed},
		"the end of a notebook":           {s.patch(s.ofKind("Jupyter"), `{"spec":{"suspend":true}}`), allowed},
		"the image of a notebook":         {s.patch(s.ofKind("Jupyter"), `{"spec":{"suspend":true,"image":"a"}}`), changesNoSpec},
		"the end of an app":               {s.patch(s.ofKind("AppService"), `{"spec":{"suspend":true}}`), changesNoSpec},
		"the targets of a SecretShare":    {s.patch(s.ofKind("SecretShare"), `{"spec":{"targets":{"names":["a"]}}}`), changesNoSpec},
		"a new app":                       {s.create(cluster.Manifest(t, "AppService", s.namespace, "new", "size: 1")), createsNothing},
		"a new grant":                     {s.create(cluster.Manifest(t, "SecretShareGrant", s.namespace, "new", "from: [{namespace: a}]")), createsNothing},
		"the default rule":                {s.create(rule("secretsync", "secretsync")), allowed},
		"the default rule from elsewhere": {s.create(rule("secretsync", s.namespace)), createsNothing},
		"another rule":                    {s.create(rule("new", "secretsync")), createsNothing},
		"the deletion of an app":          {s.remove(s.ofKind("AppService")), "deletes no objects of tenants"},
	})
}

// A policy must not limit other users.
func TestOnlyTheOperatorIsConfined(t *testing.T) {
	s := newConfinement(t)
	s.client = s.Client
	s.expectRequests(map[string]requestCase{
		"a Secret":              {s.create(s.secret("new", nil)), allowed},
		"a privileged workload": {s.create(s.deployment("new", func(pod *corev1.PodSpec) { pod.HostPID = true }, nil)), allowed},
		"a protected namespace": {s.create(s.in(kubeSystem, s.secret("new", nil))), allowed},
		"its own namespace":     {s.create(s.in(own, s.secret("new", nil))), allowed},
		"a deletion":            {s.remove(s.ofKind("AppService")), allowed},
	})
}
