package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

const defaultImage = "jupyter/minimal-notebook:test"

// jupyter is one with a spec in YAML, as the API server hands it over, but for
// defaults.
func jupyter(t testing.TB, spec string) *v1alpha1.Jupyter {
	t.Helper()
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "lab", UID: "uid"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &j.Spec); err != nil {
		t.Fatal(err)
	}
	return j
}

// pod is the notebook's pod, which must be allowed.
func pod(t testing.TB, spec string) corev1.PodTemplateSpec {
	t.Helper()
	p, errs := workload.NotebookPod(jupyter(t, spec), defaultImage)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return p
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var labels = map[string]string{
	"app.kubernetes.io/managed-by": "bongsu", "app.kubernetes.io/name": "jupyter",
	"app.kubernetes.io/instance": "lab", "bongsu.io/jupyter": "lab",
}

var owner = metav1.OwnerReference{
	APIVersion: "bongsu.io/v1alpha1", Kind: "Jupyter", Name: "lab", UID: "uid", Controller: new(true), BlockOwnerDeletion: new(false),
}

func TestAPodWithoutATemplateIsRestrictedAndAsksForTheToken(t *testing.T) {
	got := pod(t, `{}`)
	equal(t, got.Labels, labels)
	equal(t, got.Spec, corev1.PodSpec{
		ServiceAccountName: "default", AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		RestartPolicy: corev1.RestartPolicyAlways,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(100)),
			FSGroup: new(int64(100)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{{Name: "home", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "notebook", Image: defaultImage,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8888, Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{{Name: "JUPYTER_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "lab-token"}, Key: "token",
			}}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "home", MountPath: "/home/jovyan"}},
			StartupProbe:   askAPI(3, 100),
			ReadinessProbe: askAPI(10, 3),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	})
}

func askAPI(periodSeconds, failureThreshold int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/api", Port: intstr.FromInt32(8888), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: failureThreshold,
	}
}

// mark shows whose child an object is.
var mark = map[string]string{"bongsu.io/owner-uid": "uid"}

func TestAStatefulSetHasOnePodAndNoneWhileSuspended(t *testing.T) {
	j := jupyter(t, `{}`)
	p := pod(t, `{}`)
	got := workload.NotebookStatefulSet(j, p)
	equal(t, got.ObjectMeta, metav1.ObjectMeta{
		Namespace: "team", Name: "lab", Labels: labels, Annotations: mark, OwnerReferences: []metav1.OwnerReference{owner},
	})
	equal(t, got.Spec, appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), ServiceName: "lab", PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"bongsu.io/jupyter": "lab"}},
		Template:       p,
	})
	j.Spec.Suspend = true
	equal(t, workload.NotebookStatefulSet(j, p).Spec.Replicas, new(int32(0)))
}

func TestAServiceReachesTheNotebook(t *testing.T) {
	got := workload.NotebookService(jupyter(t, `{}`))
	equal(t, got.OwnerReferences, []metav1.OwnerReference{owner})
	equal(t, got.Labels, labels)
	equal(t, got.Spec, corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"bongsu.io/jupyter": "lab"},
		Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8888)}},
	})
}

func TestATokenIsOursUnlessASecretIsNamed(t *testing.T) {
	ours := jupyter(t, `{}`)
	equal(t, workload.TokenRef(ours), v1alpha1.TokenSecretReference{Name: "lab-token", Key: "token"})
	got := workload.NotebookToken(ours, "secret")
	equal(t, got.Name, "lab-token")
	equal(t, got.OwnerReferences, []metav1.OwnerReference{owner})
	equal(t, got.Data, map[string][]byte{"token": []byte("secret")})

	theirs := `auth: {tokenSecretRef: {name: mine, key: password}}`
	equal(t, workload.TokenRef(jupyter(t, theirs)), v1alpha1.TokenSecretReference{Name: "mine", Key: "password"})
	equal(t, pod(t, theirs).Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef, &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "password",
	})
}

func TestAClaimIsDeletedWithItsJupyterOnlyIfTheSpecSaysSo(t *testing.T) {
	kept := metav1.ObjectMeta{Namespace: "team", Name: "lab", Labels: labels, Annotations: mark}
	child := metav1.ObjectMeta{Namespace: "team", Name: "lab", Labels: labels, Annotations: mark, OwnerReferences: []metav1.OwnerReference{owner}}
	for name, tc := range map[string]struct {
		storage string
		want    *metav1.ObjectMeta
	}{
		"no storage":      {`{}`, nil},
		"another's claim": {`storage: {existingClaim: shared}`, nil},
		"by default":      {`storage: {size: 1Gi}`, &kept},
		"Retain":          {`storage: {size: 1Gi, retentionPolicy: {whenDeleted: Retain}}`, &kept},
		"no policy":       {`storage: {size: 1Gi, retentionPolicy: {}}`, &kept},
		"Delete":          {`storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}`, &child},
	} {
		t.Run(name, func(t *testing.T) {
			got := workload.NotebookClaim(jupyter(t, tc.storage))
			if (got == nil) != (tc.want == nil) {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			if got != nil {
				equal(t, got.ObjectMeta, *tc.want)
			}
		})
	}
}

func TestAClaimFollowsSpecStorage(t *testing.T) {
	for name, tc := range map[string]struct{ storage, want string }{
		"defaults": {
			`storage: {size: 1Gi}`,
			`{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`,
		},
		"everything": {
			`storage: {size: 20Gi, storageClassName: fast, accessModes: [ReadWriteMany, ReadWriteOnce]}`,
			`{accessModes: [ReadWriteMany, ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 20Gi}}}`,
		},
		"no class": {
			`storage: {size: 1Gi, storageClassName: ""}`,
			`{accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want corev1.PersistentVolumeClaimSpec
			if err := yaml.UnmarshalStrict([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if got := workload.NotebookClaim(jupyter(t, tc.storage)).Spec; !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestTheNotebooksFilesAreWhereStorageSays(t *testing.T) {
	for name, tc := range map[string]struct{ storage, claim, path string }{
		"its own claim":   {`storage: {size: 1Gi}`, "lab", "/home/jovyan"},
		"another's claim": {`storage: {existingClaim: shared, mountPath: /files}`, "shared", "/files"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := pod(t, tc.storage).Spec
			equal(t, spec.Volumes, []corev1.Volume{{Name: "home", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: tc.claim},
			}}})
			equal(t, spec.Containers[0].VolumeMounts, []corev1.VolumeMount{{Name: "home", MountPath: tc.path}})
		})
	}
}

func TestANotebookIsReachedAsAccessSays(t *testing.T) {
	for name, tc := range map[string]struct {
		access, url, ingress string
	}{
		"within the cluster": {`{}`, "http://lab.team.svc/", ""},
		"None":               {`access: {type: None}`, "http://lab.team.svc/", ""},
		"without TLS": {
			`access: {type: Ingress, host: lab.example.org}`, "http://lab.example.org/",
			`rules: [{host: lab.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: lab, port: {name: http}}}}]}}]`,
		},
		"with everything": {
			`access: {type: Ingress, host: lab.example.org, ingressClassName: nginx, tlsSecretName: cert}`, "https://lab.example.org/",
			"ingressClassName: nginx\n" +
				"rules: [{host: lab.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: lab, port: {name: http}}}}]}}]\n" +
				"tls: [{hosts: [lab.example.org], secretName: cert}]",
		},
		"below a path": {
			`access: {type: Ingress, host: lab.example.org, path: /team/lab}`, "http://lab.example.org/team/lab/",
			`rules: [{host: lab.example.org, http: {paths: [{path: /team/lab, pathType: Prefix, backend: {service: {name: lab, port: {name: http}}}}]}}]`,
		},
		"below a path within the cluster": {`access: {path: /team/lab}`, "http://lab.team.svc/team/lab/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := jupyter(t, tc.access)
			equal(t, workload.NotebookURL(j), tc.url)
			ingress := workload.NotebookIngress(j)
			if ingress == nil {
				equal(t, "", tc.ingress)
				return
			}
			equal(t, ingress.OwnerReferences, []metav1.OwnerReference{owner})
			got, err := yaml.Marshal(ingress.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var gotSpec, wantSpec any
			if err := yaml.Unmarshal(got, &gotSpec); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.ingress), &wantSpec); err != nil {
				t.Fatal(err)
			}
			equal(t, gotSpec, wantSpec)
		})
	}
}

func TestAnIngressHasOnlyTheAnnotationsOfAccess(t *testing.T) {
	equal(t, workload.NotebookIngress(jupyter(t, `access: {type: Ingress, host: a.b}`)).Annotations, mark)
	j := jupyter(t, `access: {type: Ingress, host: a.b, annotations: {nginx.ingress.kubernetes.io/proxy-body-size: 1g}}`)
	equal(t, workload.NotebookIngress(j).Annotations, map[string]string{
		"nginx.ingress.kubernetes.io/proxy-body-size": "1g", "bongsu.io/owner-uid": "uid",
	})
}

func TestAServerBelowAPathIsConfiguredAndProbedThere(t *testing.T) {
	got := pod(t, `access: {path: /team/lab}`).Spec.Containers[0]
	equal(t, got.Env[1], corev1.EnvVar{Name: "NOTEBOOK_ARGS", Value: "--ServerApp.base_url=/team/lab"})
	for _, probe := range []*corev1.Probe{got.StartupProbe, got.ReadinessProbe} {
		equal(t, probe.HTTPGet.Path, "/team/lab/api")
	}
}

func TestThePathOfARunningServerIsReadFromItsPod(t *testing.T) {
	named := func(name string, env ...corev1.EnvVar) corev1.Container {
		return corev1.Container{Name: name, Env: env}
	}
	args := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: "NOTEBOOK_ARGS", Value: value} }
	for name, tc := range map[string]struct {
		containers []corev1.Container
		want       string
	}{
		"no path":                {[]corev1.Container{named("notebook")}, ""},
		"a path":                 {[]corev1.Container{named("proxy"), named("notebook", corev1.EnvVar{Name: "A"}, args("--ServerApp.base_url=/a/b-1.c_D"))}, "/a/b-1.c_D"},
		"of another container":   {[]corev1.Container{named("notebook"), named("proxy", args("--ServerApp.base_url=/a"))}, ""},
		"another variable":       {[]corev1.Container{named("notebook", corev1.EnvVar{Name: "ARGS", Value: "--ServerApp.base_url=/a"})}, ""},
		"other arguments":        {[]corev1.Container{named("notebook", args("--debug"))}, ""},
		"more arguments":         {[]corev1.Container{named("notebook", args("--ServerApp.base_url=/a --debug"))}, ""},
		"another host":           {[]corev1.Container{named("notebook", args("--ServerApp.base_url=@evil.example.org"))}, ""},
		"another host in a path": {[]corev1.Container{named("notebook", args("--ServerApp.base_url=//evil.example.org"))}, ""},
		"the directory above":    {[]corev1.Container{named("notebook", args("--ServerApp.base_url=/.."))}, ""},
		"a query":                {[]corev1.Container{named("notebook", args("--ServerApp.base_url=/a?b"))}, ""},
	} {
		if got := workload.NotebookPrefix(&corev1.Pod{Spec: corev1.PodSpec{Containers: tc.containers}}); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	made := corev1.Pod{Spec: pod(t, `access: {path: /team/lab}`).Spec}
	equal(t, workload.NotebookPrefix(&made), "/team/lab")
}

func TestACustomServiceAccountMountsItsToken(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, account string
		token         bool
	}{
		"none":    {`{}`, "default", false},
		"default": {`serviceAccountName: default`, "default", false},
		"another": {`serviceAccountName: trainer`, "trainer", true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := pod(t, tc.spec).Spec
			equal(t, spec.ServiceAccountName, tc.account)
			equal(t, spec.AutomountServiceAccountToken, new(tc.token))
		})
	}
}

func TestTheSameJupyterAlwaysGivesTheSamePod(t *testing.T) {
	spec := `
resources: {limits: {cpu: 2000m, memory: 1Gi}}
template:
  metadata: {labels: {a: b, c: d, e: f}, annotations: {g: h, i: j}}
  spec:
    nodeSelector: {a: b, c: d}
    volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c}}]
    containers:
    - {name: proxy, image: proxy}
    - {name: notebook, env: [{name: A, value: b}, {name: C, value: d}]}
`
	first := pod(t, spec)
	for range 50 {
		if again := pod(t, spec); !equality.Semantic.DeepEqual(first, again) {
			t.Fatal(cmp.Diff(first, again))
		}
	}
}

func TestRenderingDoesNotChangeTheJupyter(t *testing.T) {
	j := jupyter(t, `
resources: {limits: {cpu: 1}}
template: {metadata: {labels: {a: b}}, spec: {containers: [{name: notebook, env: [{name: A, value: b}], ports: [{containerPort: 9}]}, {name: proxy}]}}
`)
	before := j.DeepCopy()
	got, errs := workload.NotebookPod(j, defaultImage)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	got.Labels["x"], got.Spec.Containers[0].Resources.Limits["x"] = "y", *got.Spec.Containers[0].Resources.Limits.Cpu()
	workload.NotebookStatefulSet(j, got).Spec.Template.Labels["z"] = "z"
	if !equality.Semantic.DeepEqual(j, before) {
		t.Error(cmp.Diff(before, j))
	}
	if strings.Contains(got.Labels["z"], "z") {
		t.Error("the StatefulSet shares its template's labels")
	}
}
