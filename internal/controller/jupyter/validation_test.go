package jupyter_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// strict refuses fields that there are not, as kubectl does.
func strict(c *cluster.Cluster) client.Client {
	return client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
}

func TestTheAPIServerRefusesAWrongJupyterAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	const (
		quantity = "spec.storage.size: Invalid value: ... size must be a quantity of at least 1Mi: write for example 10Gi"
		httpOnly = "spec.server: Invalid value: ... port is required for type HTTP, and port, readinessPath and activityPath are for type HTTP only: set type and port, or remove these fields"
		foreign  = "spec.access.annotations: Invalid value: ... an annotation is not one of those that spec.access may set: remove it, or annotate the Ingress itself"
		oneClaim = "spec.storage: Invalid value: ... set either size, to create a claim, or existingClaim, to use one that exists"
		ownClaim = "spec.storage: Invalid value: ... storageClassName, accessModes and retentionPolicy are for a claim that the Jupyter creates: remove them, or remove existingClaim"
		access   = "spec.access: Invalid value: ... host is required for type Ingress, and host, ingressClassName, tlsSecretName and annotations are for type Ingress only: set type and host, or remove these fields"
	)
	long := strings.Repeat("a", 254)
	for name, tc := range map[string]struct{ spec, want string }{
		"an unknown field":              {"replicas: 2", `unknown field "spec.replicas"`},
		"an empty image":                {`image: ""`, "spec.image: Invalid value"},
		"a long image":                  {"image: " + strings.Repeat("a", 1025), "spec.image: Too long: may not be more than 1024 bytes"},
		"a service account in capitals": {"serviceAccountName: Me", "spec.serviceAccountName: Invalid value"},
		"an empty service account":      {`serviceAccountName: ""`, "spec.serviceAccountName: Invalid value"},
		"a suspend that is a text":      {`suspend: "yes"`, "spec.suspend: Invalid value"},
		"a list for a template":         {"template: []", "spec.template: Invalid value"},
		"a container without a name":    {"template: {spec: {containers: [{image: a}]}}", "spec.template.spec.containers[0].name: Required value"},
		"65 init containers":            {"template: {spec: {initContainers: [" + strings.Repeat("{},", 65) + "]}}", "spec.template.spec.initContainers: Too many: 65: must have at most 64 items"},
		"an unknown field of a pod":     {"template: {spec: {nodePool: a}}", `unknown field "spec.template.spec.nodePool"`},

		"storage of nothing":             {"storage: {}", oneClaim},
		"storage of both":                {"storage: {size: 1Gi, existingClaim: a}", oneClaim},
		"no room":                        {"storage: {size: 0}", quantity},
		"less than no room":              {"storage: {size: -1Gi}", quantity},
		"room without a unit":            {"storage: {size: 10}", quantity},
		"room that is no quantity":       {"storage: {size: 8GB}", quantity},
		"memory that is no quantity":     {"resources: {limits: {memory: 8GB}}", `spec.resources.limits[memory]: Invalid value: "8GB": not a quantity: write for example 8Gi or 8G`},
		"cores that are no quantity":     {"resources: {requests: {cpu: some}}", `spec.resources.requests[cpu]: Invalid value: "some": not a quantity: write for example 8Gi or 8G, or 500m for a half`},
		"memory that takes long to read": {"resources: {limits: {memory: '1e-9999999'}}", `spec.resources.limits[memory]: Invalid value: "1e-9999999": not a quantity`},
		"room that takes long to read":   {"storage: {size: '1e-9999999'}", quantity},
		"a long memory":                  {"resources: {limits: {memory: '" + strings.Repeat("0", 65) + "'}}", "spec.resources.limits.memory: Too long"},
		"memory of a template that takes long to read": {"template: {spec: {containers: [{name: a, resources: {limits: {memory: '1e-9999999'}}}]}}",
			"spec.template.spec.containers[0].resources.limits.memory: Invalid value"},
		"a port of a template beyond 32 bits": {"template: {spec: {containers: [{name: a, readinessProbe: {httpGet: {port: 99999999999}}}]}}",
			"spec.template.spec.containers[0].readinessProbe.httpGet.port: Invalid value: 99999999999: ... should be less than or equal to 2147483647"},
		"a class of another's claim":   {"storage: {existingClaim: a, storageClassName: b}", ownClaim},
		"modes of another's claim":     {"storage: {existingClaim: a, accessModes: [ReadWriteOnce]}", ownClaim},
		"retention of another's claim": {"storage: {existingClaim: a, retentionPolicy: {whenDeleted: Delete}}", ownClaim},
		"an empty claim":               {`storage: {existingClaim: ""}`, "spec.storage.existingClaim: Invalid value"},
		"a class in capitals":          {"storage: {size: 1Gi, storageClassName: Fast}", "spec.storage.storageClassName: Invalid value"},
		"no modes":                     {"storage: {size: 1Gi, accessModes: []}", "spec.storage.accessModes: Invalid value"},
		"an unknown mode":              {"storage: {size: 1Gi, accessModes: [ReadOnlyMany]}", `spec.storage.accessModes[0]: Unsupported value: "ReadOnlyMany": supported values: "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"`},
		"a mode twice":                 {"storage: {size: 1Gi, accessModes: [ReadWriteOnce, ReadWriteOnce]}", `spec.storage.accessModes[1]: Duplicate value: "ReadWriteOnce"`},
		"a relative path":              {"storage: {size: 1Gi, mountPath: work}", "spec.storage.mountPath: Invalid value"},
		"the root":                     {"storage: {size: 1Gi, mountPath: /}", "spec.storage.mountPath: Invalid value"},
		"a path with a colon":          {"storage: {size: 1Gi, mountPath: '/a:b'}", "spec.storage.mountPath: Invalid value"},
		"an unknown retention":         {"storage: {size: 1Gi, retentionPolicy: {whenDeleted: Keep}}", `spec.storage.retentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete"`},

		"an Ingress without host":         {"access: {type: Ingress}", access},
		"a host without Ingress":          {"access: {host: a.example.org}", access},
		"a class without Ingress":         {"access: {type: None, ingressClassName: a}", access},
		"TLS without Ingress":             {"access: {tlsSecretName: a}", access},
		"an unknown access":               {"access: {type: Route}", `spec.access.type: Unsupported value: "Route": supported values: "None", "Ingress"`},
		"a long host":                     {"access: {type: Ingress, host: " + long + "}", "spec.access.host: Too long: may not be more than 253 bytes"},
		"a host in capitals":              {"access: {type: Ingress, host: Lab.example.org}", "spec.access.host: Invalid value"},
		"a host with a port":              {"access: {type: Ingress, host: 'lab.example.org:80'}", "spec.access.host: Invalid value"},
		"a host that is a URL":            {"access: {type: Ingress, host: 'https://lab.example.org'}", "spec.access.host: Invalid value"},
		"any host":                        {"access: {type: Ingress, host: '*.example.org'}", "spec.access.host: Invalid value"},
		"annotations without Ingress":     {"access: {annotations: {cert-manager.io/issuer: a}}", access},
		"a snippet":                       {"access: {type: Ingress, host: a.b, annotations: {nginx.ingress.kubernetes.io/configuration-snippet: a}}", foreign},
		"another authentication":          {"access: {type: Ingress, host: a.b, annotations: {nginx.ingress.kubernetes.io/auth-url: 'http://a'}}", foreign},
		"an annotation of ours":           {"access: {type: Ingress, host: a.b, annotations: {bongsu.io/owner-uid: a}}", foreign},
		"a directive in an annotation":    {`access: {type: Ingress, host: a.b, annotations: {nginx.ingress.kubernetes.io/proxy-body-size: "1g; a"}}`, "spec.access.annotations.nginx.ingress.kubernetes.io/proxy-body-size: Invalid value"},
		"a line break in an annotation":   {`access: {type: Ingress, host: a.b, annotations: {nginx.ingress.kubernetes.io/proxy-body-size: "1g\n"}}`, "spec.access.annotations.nginx.ingress.kubernetes.io/proxy-body-size: Invalid value"},
		"a long annotation":               {"access: {type: Ingress, host: a.b, annotations: {cert-manager.io/issuer: " + long + "aaa}}", "spec.access.annotations.cert-manager.io/issuer: Too long: may not be more than 256 bytes"},
		"a path that ends with a slash":   {"access: {path: /a/}", "spec.access.path: Invalid value"},
		"a relative path of access":       {"access: {path: a}", "spec.access.path: Invalid value"},
		"the directory above":             {"access: {path: /a/..}", "spec.access.path: Invalid value"},
		"a path with a flag":              {"access: {path: '/a --debug'}", "spec.access.path: Invalid value"},
		"a path with a variable":          {"access: {path: '/$(A)'}", "spec.access.path: Invalid value"},
		"a long path":                     {"access: {path: /" + long + "}", "spec.access.path: Too long: may not be more than 200 bytes"},
		"culling of an unknown use":       {"{server: {type: HTTP, port: 80}, culling: {}}", "spec: Invalid value: ... culling needs server.activityPath, because an HTTP server has no other way to report its use: set activityPath, or remove culling"},
		"a token for an HTTP server":      {"{server: {type: HTTP, port: 80}, auth: {tokenSecretRef: {name: a}}}", "spec: Invalid value: ... auth.tokenSecretRef is for a server of type Jupyter: remove it, and give the server its password in spec.template"},
		"an HTTP server without a port":   {"server: {type: HTTP}", httpOnly},
		"a Jupyter server with a port":    {"server: {port: 80}", httpOnly},
		"a path of readiness of Jupyter":  {"server: {type: Jupyter, readinessPath: /a}", httpOnly},
		"a path of activity of Jupyter":   {"server: {activityPath: /a}", httpOnly},
		"an unknown server":               {"server: {type: TCP}", `spec.server.type: Unsupported value: "TCP": supported values: "Jupyter", "HTTP"`},
		"a port that does not exist":      {"server: {type: HTTP, port: 65536}", "spec.server.port: Invalid value"},
		"another host to ask":             {"server: {type: HTTP, port: 80, activityPath: '@a.example.org/'}", "spec.server.activityPath: Invalid value"},
		"a query to ask":                  {"server: {type: HTTP, port: 80, activityPath: '/?a'}", "spec.server.activityPath: Invalid value"},
		"a relative path of readiness":    {"server: {type: HTTP, port: 80, readinessPath: a}", "spec.server.readinessPath: Invalid value"},
		"a long argument":                 {"server: {args: [" + strings.Repeat("a", 1025) + "]}", "spec.server.args[0]: Too long: may not be more than 1024 bytes"},
		"many arguments":                  {"server: {args: [" + strings.Repeat("a,", 65) + "]}", "spec.server.args: Too many: 65: must have at most 64 items"},
		"a class of Ingress in capitals":  {"access: {type: Ingress, host: a.b, ingressClassName: A}", "spec.access.ingressClassName: Invalid value"},
		"a Secret of TLS in capitals":     {"access: {type: Ingress, host: a.b, tlsSecretName: A}", "spec.access.tlsSecretName: Invalid value"},
		"a token of no Secret":            {"auth: {tokenSecretRef: {}}", "spec.auth.tokenSecretRef.name: Required value"},
		"a token of an empty name":        {`auth: {tokenSecretRef: {name: ""}}`, "spec.auth.tokenSecretRef.name: Invalid value"},
		"a token of an empty key":         {`auth: {tokenSecretRef: {name: a, key: ""}}`, "spec.auth.tokenSecretRef.key: Invalid value"},
		"a token of a key with a slash":   {"auth: {tokenSecretRef: {name: a, key: a/b}}", "spec.auth.tokenSecretRef.key: Invalid value"},
		"an unknown strategy":             {"updateStrategy: {type: Always}", `spec.updateStrategy.type: Unsupported value: "Always": supported values: "OnRestart", "Recreate"`},
		"no deadline":                     {"progressDeadlineSeconds: 0", "spec.progressDeadlineSeconds: Invalid value"},
		"a deadline after days":           {"progressDeadlineSeconds: 86401", "spec.progressDeadlineSeconds: Invalid value"},
		"less than no grace":              {"schedulingGracePeriodSeconds: -1", "spec.schedulingGracePeriodSeconds: Invalid value"},
		"a grace of days":                 {"schedulingGracePeriodSeconds: 86401", "spec.schedulingGracePeriodSeconds: Invalid value"},
		"culled at once":                  {"culling: {idleTimeoutSeconds: 59}", "spec.culling.idleTimeoutSeconds: Invalid value"},
		"culled after months":             {"culling: {idleTimeoutSeconds: 2592001}", "spec.culling.idleTimeoutSeconds: Invalid value"},
		"warned before it began":          {"culling: {warningSeconds: -1}", "spec.culling.warningSeconds: Invalid value"},
		"warned days before":              {"culling: {idleTimeoutSeconds: 100000, warningSeconds: 86401}", "spec.culling.warningSeconds: Invalid value"},
		"warned when it was not idle yet": {"culling: {idleTimeoutSeconds: 300, warningSeconds: 300}", "spec.culling: Invalid value: ... warningSeconds must be less than idleTimeoutSeconds (3600 if unset): lower warningSeconds, or raise idleTimeoutSeconds"},
		"warned before the default":       {"culling: {warningSeconds: 3600}", "spec.culling: Invalid value: ... warningSeconds must be less than idleTimeoutSeconds (3600 if unset)"},
		"warned when it did not fail yet": {"culling: {failingSeconds: 300, warningSeconds: 300}", "spec.culling: Invalid value: ... warningSeconds must be less than failingSeconds: lower warningSeconds, or raise failingSeconds"},
		"stopped at its first failure":    {"culling: {failingSeconds: 59}", "spec.culling.failingSeconds: Invalid value"},
		"stopped after months of failing": {"culling: {failingSeconds: 2592001}", "spec.culling.failingSeconds: Invalid value"},
		"an unknown activity":             {"culling: {activity: Tabs}", "spec.culling.activity: Unsupported value"},
		"terminals for kernels only":      {"culling: {activity: Kernels, openTerminalSeconds: 60}", "spec.culling: Invalid value: ... openTerminalSeconds is for activity KernelsAndTerminals only: set this activity, or remove openTerminalSeconds"},
		"terminals for the whole server":  {"culling: {activity: Server, openTerminalSeconds: 60}", "spec.culling: Invalid value: ... openTerminalSeconds is for activity KernelsAndTerminals only"},
		"a terminal for ever":             {"culling: {openTerminalSeconds: 604801}", "spec.culling.openTerminalSeconds: Invalid value"},
		"a terminal for no time":          {"culling: {openTerminalSeconds: -1}", "spec.culling.openTerminalSeconds: Invalid value"},
		"asked too often":                 {"culling: {periodSeconds: 9}", "spec.culling.periodSeconds: Invalid value"},
		"asked too seldom":                {"culling: {periodSeconds: 3601}", "spec.culling.periodSeconds: Invalid value"},
		"no time to answer":               {"culling: {timeoutSeconds: 0}", "spec.culling.timeoutSeconds: Invalid value"},
		"too much time to answer":         {"culling: {timeoutSeconds: 61, periodSeconds: 100}", "spec.culling.timeoutSeconds: Invalid value"},
		"asked before the last answer":    {"culling: {timeoutSeconds: 10, periodSeconds: 10}", "spec.culling: Invalid value: ... timeoutSeconds (5 if unset) must be less than periodSeconds (60 if unset): lower timeoutSeconds, or raise periodSeconds"},
		"failed before it was asked":      {"culling: {failureThreshold: 0}", "spec.culling.failureThreshold: Invalid value"},
		"failed for ever":                 {"culling: {failureThreshold: 101}", "spec.culling.failureThreshold: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := strict(c).Create(t.Context(), cluster.Manifest(t, "Jupyter", metav1.NamespaceDefault, "wrong", tc.spec), client.DryRunAll)
			expectSaid(t, err, tc.want)
		})
	}
}

// expectSaid expects a text in an error; "..." stands for what is said in between.
func expectSaid(t *testing.T, err error, want string) {
	t.Helper()
	g := NewWithT(t)
	if !strings.Contains(want, "spec.template") {
		g.Expect(err).NotTo(MatchError(ContainSubstring("[numkMGTPE]")), "the pattern of a quantity helps no one")
	}
	for part := range strings.SplitSeq(want, " ... ") {
		g.Expect(err).To(MatchError(ContainSubstring(part)))
	}
}

func TestTheAPIServerRefusesANameThatChildrenCannotHave(t *testing.T) {
	c := cluster.Shared(t)
	const want = "metadata.name: Invalid value: ... must be a DNS label of at most 52 characters that begins with a letter: choose another name"
	for name, ok := range map[string]bool{
		"a": true, "lab-1": true, strings.Repeat("a", 52): true,
		strings.Repeat("a", 53): false, "lab.mine": false, "1lab": false,
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Client.Create(t.Context(), cluster.Manifest(t, "Jupyter", metav1.NamespaceDefault, name, ""), client.DryRunAll)
			if ok {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			expectSaid(t, err, want)
		})
	}
}

func TestTheAPIServerAcceptsOmittedFields(t *testing.T) {
	c := cluster.Shared(t)
	g := NewWithT(t)
	create := func(spec string) *v1alpha1.Jupyter {
		t.Helper()
		manifest := cluster.Manifest(t, "Jupyter", c.Namespace(t, nil), "lab", spec)
		g.Expect(strict(c).Create(t.Context(), manifest)).To(Succeed())
		j := &v1alpha1.Jupyter{}
		g.Expect(c.Client.Get(t.Context(), client.ObjectKeyFromObject(manifest), j)).To(Succeed())
		return j
	}
	minimal := create("").Spec
	g.Expect(minimal.ProgressDeadlineSeconds).To(Equal(new(int32(600))))
	g.Expect(minimal.SchedulingGracePeriodSeconds).To(Equal(new(int32(60))))
	g.Expect(minimal.ServiceAccountName).To(Equal("default"))
	g.Expect(minimal.Access.Type).To(Equal(v1alpha1.AccessTypeNone))
	g.Expect(minimal.UpdateStrategy.Type).To(Equal(v1alpha1.JupyterUpdateOnRestart))
	g.Expect(minimal.Storage).To(BeNil())
	g.Expect(minimal.Culling).To(BeNil())

	given := create(`
storage: {size: 1Gi, retentionPolicy: {}}
access: {}
auth: {tokenSecretRef: {name: mine}}
culling: {}
updateStrategy: {}
`).Spec
	g.Expect(given.Storage.MountPath).To(Equal("/home/jovyan"))
	g.Expect(given.Storage.RetentionPolicy.WhenDeleted).To(Equal(v1alpha1.WhenDeletedRetain))
	g.Expect(given.Access.Type).To(Equal(v1alpha1.AccessTypeNone))
	g.Expect(given.Auth.TokenSecretRef.Key).To(Equal("token"))
	g.Expect(*given.Culling).To(Equal(v1alpha1.JupyterCulling{
		Activity:           v1alpha1.CullingActivityKernelsAndTerminals,
		IdleTimeoutSeconds: 3600, PeriodSeconds: 60, TimeoutSeconds: 5, FailureThreshold: 3,
	}))
	g.Expect(given.UpdateStrategy.Type).To(Equal(v1alpha1.JupyterUpdateOnRestart))
	create("culling: {idleTimeoutSeconds: 60, failingSeconds: 60}") // the warning is as short

	// A template is merged into a pod that has a container.
	g.Expect(create("template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {c: d}}}").Spec.Template).To(Equal(&corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"c": "d"}},
	}))
}

func TestTheAPIServerAcceptsTheAnnotationsOfTheGuide(t *testing.T) {
	c := cluster.Shared(t)
	guide, err := os.ReadFile("../../../docs/jupyter.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z.-]+/)` \\| (.*?) \\|").FindAllStringSubmatch(string(guide), -1)
	g := NewWithT(t)
	tested := 0
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([a-z.-]+)`").FindAllStringSubmatch(row[2], -1) {
			values := annotationValues[name[1]]
			g.Expect(values.right).NotTo(BeEmpty(), name[1])
			for _, value := range values.right {
				g.Expect(createAnnotated(t, c, row[1]+name[1], value)).To(Succeed(), "%s: %s", name[1], value)
			}
			for _, value := range values.wrong {
				expectSaid(t, createAnnotated(t, c, row[1]+name[1], value), "spec.access.annotations: Invalid value: ... "+name[1]+" ... must be "+values.want)
			}
			tested++
		}
	}
	g.Expect(tested).To(Equal(len(annotationValues)))
}

// valuesOf are values of an annotation, and what the API server says of the wrong ones.
type valuesOf struct {
	right, wrong []string
	want         string
}

var (
	seconds    = valuesOf{[]string{"0", "3600"}, []string{"", "1h", "-1", "1.5", "1000000000"}, "a number of seconds"}
	onOrOff    = valuesOf{[]string{"on", "off"}, []string{"", "true", "on off"}, "on or off"}
	trueFalse  = valuesOf{[]string{"true", "false"}, []string{"", "on", "True"}, "true or false"}
	nameOfOne  = valuesOf{[]string{"a", "lets-encrypt.org"}, []string{"", "A", "a b", "a,b", "a/b"}, "the name of an issuer"}
	oversized  = strings.Repeat("9", 10)
	allSources = "10.0.0.0/8, 192.0.2.1,2001:db8::/32,fe80::1"

	// annotationValues are by the name of the annotation, without its prefix.
	annotationValues = map[string]valuesOf{
		"proxy-body-size":         {[]string{"0", "512k", "8M", "1g"}, []string{"", "1gb", "1 g", "-1", "1.5g", oversized, oversized + "g"}, "a number of bytes"},
		"proxy-read-timeout":      seconds,
		"proxy-send-timeout":      seconds,
		"proxy-buffering":         onOrOff,
		"proxy-request-buffering": onOrOff,
		"ssl-redirect":            trueFalse,
		"force-ssl-redirect":      trueFalse,
		"whitelist-source-range":  {[]string{"192.0.2.1", allSources}, []string{"", "all", "10.0.0.0/8 10.1.0.0/16", "10.0.0.0/8,", "10.0.0.0/", "10.0.0.0/8888", "example.org"}, "a list of IP addresses or CIDRs"},
		"router.entrypoints":      {[]string{"web", "web,web_secure", "web, web-2"}, []string{"", "web,", "web secure", "a/b", "a:80"}, "a list of names"},
		"router.tls":              trueFalse,
		"issuer":                  nameOfOne,
		"cluster-issuer":          nameOfOne,
	}
)

// createAnnotated creates a Jupyter with an annotation of its Ingress, as a dry run.
func createAnnotated(t *testing.T, c *cluster.Cluster, name, value string) error {
	t.Helper()
	manifest := cluster.Manifest(t, "Jupyter", metav1.NamespaceDefault, "lab", "{access: {type: Ingress, host: a.b, path: /a/B-1.2_c}}")
	if err := unstructured.SetNestedStringMap(manifest.Object, map[string]string{name: value}, "spec", "access", "annotations"); err != nil {
		return err
	}
	return strict(c).Create(t.Context(), manifest, client.DryRunAll)
}

// Whether a claim can follow a change is for its class to say, and for the Jupyter's
// conditions.
func TestTheAPIServerRefusesToTakeStorageAway(t *testing.T) {
	c := cluster.Shared(t)
	const refused = "spec: Invalid value: ... storage cannot be removed, because the files would become unreachable: restore it, or create another Jupyter"
	const claim = "storage: {size: 10Gi, storageClassName: slow, accessModes: [ReadWriteOnce]}"
	for name, tc := range map[string]struct{ before, patch, want string }{
		"it grows":                     {claim, `{"spec":{"storage":{"size":"20Gi"}}}`, ""},
		"it stays, in other words":     {claim, `{"spec":{"storage":{"size":"10240Mi"}}}`, ""},
		"it shrinks":                   {claim, `{"spec":{"storage":{"size":"9Gi"}}}`, ""},
		"it shrinks, by another unit":  {claim, `{"spec":{"storage":{"size":"9999M"}}}`, ""},
		"it is moved":                  {claim, `{"spec":{"storage":{"mountPath":"/work"}}}`, ""},
		"it is kept no longer":         {claim, `{"spec":{"storage":{"retentionPolicy":{"whenDeleted":"Delete"}}}}`, ""},
		"another class":                {claim, `{"spec":{"storage":{"storageClassName":"fast"}}}`, ""},
		"no class":                     {claim, `{"spec":{"storage":{"storageClassName":null}}}`, ""},
		"a class at last":              {"storage: {size: 1Gi}", `{"spec":{"storage":{"storageClassName":"fast"}}}`, ""},
		"other modes":                  {claim, `{"spec":{"storage":{"accessModes":["ReadWriteMany"]}}}`, ""},
		"no modes":                     {claim, `{"spec":{"storage":{"accessModes":null}}}`, ""},
		"modes at last":                {"storage: {size: 1Gi}", `{"spec":{"storage":{"accessModes":["ReadWriteMany"]}}}`, ""},
		"it is removed":                {claim, `{"spec":{"storage":null}}`, refused},
		"storage at last":              {"{}", `{"spec":{"storage":{"size":"1Gi","storageClassName":"fast"}}}`, ""},
		"another's claim is removed":   {"storage: {existingClaim: a}", `{"spec":{"storage":null}}`, ""},
		"another's claim is exchanged": {"storage: {existingClaim: a}", `{"spec":{"storage":{"existingClaim":"b"}}}`, ""},
		"one's own after another's":    {"storage: {existingClaim: a}", `{"spec":{"storage":{"existingClaim":null,"size":"1Gi","storageClassName":"fast","accessModes":["ReadWriteMany"]}}}`, ""},
		"another's after one's own":    {"storage: {size: 1Gi}", `{"spec":{"storage":{"existingClaim":"a","size":null}}}`, ""},
		"a claim and another's":        {claim, `{"spec":{"storage":{"existingClaim":"a"}}}`, "set either size, to create a claim, or existingClaim, to use one that exists"},
		"everything but the storage":   {claim, `{"spec":{"image":"b","serviceAccountName":"c","culling":{}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			j := cluster.Manifest(t, "Jupyter", metav1.NamespaceDefault, "changing", tc.before)
			g.Expect(c.Client.Create(t.Context(), j)).To(Succeed())
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), j) })
			err := c.Client.Patch(t.Context(), j.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			expectSaid(t, err, tc.want)
		})
	}
}

// A child that the API server changes would be written again and again.
func TestTheAPIServerStoresChildrenUnchanged(t *testing.T) {
	c := cluster.Start(t) // no operator, and no controller that writes a status
	for name, spec := range map[string]string{
		"minimal":    "",
		"everything": everything,
		"a template": `
resources: {limits: {cpu: 2000m, memory: 0.5Gi, nvidia.com/gpu: 1}, requests: {cpu: "1.0"}}
storage: {existingClaim: mine}
template:
  metadata: {annotations: {bongsu-local/simulate: none}}
  spec:
    hostUsers: true
    tolerations: [{key: gpu}]
    volumes: [{name: a, configMap: {name: a}}, {name: b, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}}}]
    securityContext: {runAsUser: 2000, seccompProfile: {type: Localhost, localhostProfile: a}}
    initContainers: [{name: clone, image: git, restartPolicy: Always}]
    containers:
    - {name: proxy, image: p, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}], livenessProbe: {grpc: {port: 53}}}
    - name: notebook
      env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, value: ""}, {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]
      readinessProbe: {exec: {command: ["true"]}}
      lifecycle: {preStop: {exec: {command: ["true"]}}}
      volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]
`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manifest := cluster.Manifest(t, "Jupyter", c.Namespace(t, nil), "lab", spec)
			g.Expect(c.Client.Create(t.Context(), manifest)).To(Succeed())
			j := &v1alpha1.Jupyter{}
			g.Expect(c.Client.Get(t.Context(), client.ObjectKeyFromObject(manifest), j)).To(Succeed())
			pod, refused := workload.NotebookPod(j, "notebook:test")
			g.Expect(refused).To(BeEmpty())

			children := children.New(c.Client, c.Client, kube.ChildNames)
			made := []client.Object{workload.NotebookStatefulSet(j, pod), workload.NotebookService(j), workload.NotebookToken(j, "token")}
			if claim := workload.NotebookClaim(j); claim != nil {
				made = append(made, claim)
			}
			if ingress := workload.NotebookIngress(j); ingress != nil {
				made = append(made, ingress)
			}
			for _, wanted := range made {
				first, again := wanted.DeepCopyObject().(client.Object), wanted.DeepCopyObject().(client.Object)
				g.Expect(children.Ensure(t.Context(), wanted, first)).To(Succeed())
				g.Expect(children.Ensure(t.Context(), wanted, again)).To(Succeed())
				g.Expect(again.GetGeneration()).To(Equal(first.GetGeneration()), "%T", wanted)
				g.Expect(again.GetResourceVersion()).To(Equal(first.GetResourceVersion()), "%T", wanted)
			}
		})
	}
}

func TestEachWrongFieldHasALine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("template: {spec: {hostNetwork: true, hostPID: true, hostIPC: true}}")
	c := s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonInvalidSpec)
	lines := strings.Split(c.Message, "\n")
	s.g.Expect(lines).To(HaveLen(5))
	s.g.Expect(lines[0]).To(Equal("3 fields are refused:"))
	for _, line := range lines[1:4] {
		s.g.Expect(line).To(MatchRegexp(`^- spec\.template\.spec\.\w+`))
	}
	s.g.Expect(lines[4]).To(Equal("correct them; what runs stays as it is"))
	s.g.Expect(s.describer()()).To(ContainSubstring(c.Message))
	s.g.Expect(s.now().Status.LastFailure.Message).NotTo(ContainSubstring("\n"))
}
