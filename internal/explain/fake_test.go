package explain

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// testNow is the time of the tests.
var testNow = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// testKinds are the kinds of the fake cluster. Those below true belong to a namespace.
var testKinds = map[bool][]schema.GroupVersionKind{
	true: {
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("Event"),
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"), batchv1.SchemeGroupVersion.WithKind("Job"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
		networkingv1.SchemeGroupVersion.WithKind("Ingress"), autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		v1alpha1.SchemeGroupVersion.WithKind("Jupyter"), v1alpha1.SchemeGroupVersion.WithKind("AppService"), widgetKind,
		v1alpha1.SchemeGroupVersion.WithKind("Alarm"), v1alpha1.SchemeGroupVersion.WithKind("AlarmReceiver"),
		v1alpha1.SchemeGroupVersion.WithKind("SecretShare"), v1alpha1.SchemeGroupVersion.WithKind("SecretShareGrant"),
		{Group: "external-secrets.io", Version: "v1", Kind: "ExternalSecret"}, {Group: "external-secrets.io", Version: "v1", Kind: "SecretStore"},
		kueueWorkload.WithVersion("v1beta1"), helmRelease.WithVersion("v2"), {Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
		{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}, {Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"},
		{Group: "acme.cert-manager.io", Version: "v1", Kind: "Order"}, {Group: "acme.cert-manager.io", Version: "v1", Kind: "Challenge"},
	},
	false: {
		corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithKind("Node"), networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		v1alpha1.SchemeGroupVersion.WithKind("ClusterAlarm"), v1alpha1.SchemeGroupVersion.WithKind("ClusterAlarmReceiver"), v1alpha1.SchemeGroupVersion.WithKind("ClusterSecretShare"),
		signingRequest.WithVersion("v1"), admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	},
}

// widgetKind has no rules of its own.
var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// fakeExplainer explains a fake cluster.
type fakeExplainer struct {
	*Explainer
	// requests counts the requests for each kind, such as Pod or PodList.
	requests map[string]int
}

// fakeCluster returns an Explainer of objects in YAML. The user may not read the kinds in
// forbidden.
func fakeCluster(t *testing.T, objects string, forbidden ...string) *fakeExplainer {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	all := parse(t, scheme, objects)
	for _, o := range all {
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
			o.SetFinalizers([]string{fakeFinalizer})
		}
	}
	requests := map[string]int{}
	// asked counts a request, or returns an error.
	asked := func(c client.Client, o runtime.Object) error {
		gvk, err := c.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		if kind := strings.TrimSuffix(gvk.Kind, "List"); slices.Contains(forbidden, kind) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(kind)}, "", nil)
		}
		requests[gvk.Kind]++
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(fakeMapper(all)).WithObjects(all...).WithReturnManagedFields().
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Kind} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := cmp.Or(asked(c, o), c.Get(ctx, key, o, opts...)); err != nil {
					return err
				}
				withoutFinalizer(o)
				return nil
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := cmp.Or(asked(c, list), c.List(ctx, list, opts...)); err != nil {
					return err
				}
				return meta.EachListItem(list, func(o runtime.Object) error { withoutFinalizer(o.(client.Object)); return nil })
			},
		}).Build()
	for _, o := range all { // the fake client learns the type of a list only if it lists before it gets
		if u, ok := o.(*unstructured.Unstructured); ok {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(u.GroupVersionKind().GroupVersion().WithKind(u.GetKind() + "List"))
			_ = c.List(t.Context(), list)
		}
	}
	clear(requests)
	return &fakeExplainer{requests: requests, Explainer: &Explainer{
		client: c, objects: c, logs: kubefake.NewClientset().CoreV1(), clock: clocktesting.NewFakePassiveClock(testNow),
		served: servedTypes(all),
	}}
}

// fakeFinalizer lets the fake client accept an object that is being deleted.
const fakeFinalizer = "fake/finalizer"

// withoutFinalizer removes it again.
func withoutFinalizer(o client.Object) {
	if kept := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == fakeFinalizer }); len(kept) < len(o.GetFinalizers()) {
		o.SetFinalizers(kept)
	}
}

// fakeMapper returns the types of the fake cluster: the usual ones, and those of the objects.
func fakeMapper(objects []client.Object) meta.RESTMapper {
	var versions []schema.GroupVersion
	for _, o := range objects {
		versions = append(versions, o.GetObjectKind().GroupVersionKind().GroupVersion())
	}
	for _, kinds := range testKinds {
		for _, k := range kinds {
			versions = append(versions, k.GroupVersion())
		}
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for namespaced, kinds := range testKinds {
		scope := meta.RESTScopeRoot
		if namespaced {
			scope = meta.RESTScopeNamespace
		}
		for _, k := range kinds {
			mapper.Add(k, scope)
		}
	}
	for _, o := range objects {
		k := o.GetObjectKind().GroupVersionKind()
		if _, err := mapper.RESTMapping(k.GroupKind(), k.Version); err == nil {
			continue
		}
		scope := meta.RESTScopeNamespace
		if o.GetNamespace() == "" {
			scope = meta.RESTScopeRoot
		}
		mapper.AddSpecific(k, k.GroupVersion().WithResource(pluralOf(k.Kind)), k.GroupVersion().WithResource(strings.ToLower(k.Kind)), scope)
	}
	return mapper
}

// pluralOf returns the usual name of the resource of a kind.
func pluralOf(kind string) string {
	kind = strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "ch"), strings.HasSuffix(kind, "s"):
		return kind + "es"
	case strings.HasSuffix(kind, "ay"):
		return kind + "s"
	case strings.HasSuffix(kind, "y"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}

// servedTypes serves the types of objects.
type servedTypes []client.Object

func (s servedTypes) ServerGroups() (*metav1.APIGroupList, error) {
	var list metav1.APIGroupList
	for _, o := range s {
		group := o.GetObjectKind().GroupVersionKind().Group
		if !slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group})
		}
	}
	return &list, nil
}

func (s servedTypes) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	var list metav1.APIResourceList
	for _, o := range s {
		k := o.GetObjectKind().GroupVersionKind()
		known := slices.ContainsFunc(list.APIResources, func(t metav1.APIResource) bool { return t.Kind == k.Kind })
		if k.GroupVersion().String() == version && !known {
			list.APIResources = append(list.APIResources, metav1.APIResource{Kind: k.Kind, Namespaced: o.GetNamespace() != "", Verbs: metav1.Verbs{"get", "list"}})
		}
	}
	return &list, nil
}

// parse reads objects in YAML, separated by lines of dashes.
func parse(t *testing.T, scheme *runtime.Scheme, text string) []client.Object {
	t.Helper()
	var all []client.Object
	for part := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(part), &u.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, part)
		}
		if len(u.Object) == 0 {
			continue
		}
		var o client.Object = u
		if typed, err := scheme.New(u.GroupVersionKind()); err == nil {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, typed, true); err != nil {
				t.Fatalf("%v in:\n%s", err, part)
			}
			o = typed.(client.Object)
		}
		all = append(all, o)
	}
	return all
}

// explains returns the explanation of an object in namespace shop.
func (e *fakeExplainer) explains(t *testing.T, resource, name string) *Explanation {
	t.Helper()
	x, err := e.Explain(t.Context(), schema.ParseGroupResource(resource), "shop", name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// written returns the explanation as text.
func written(t *testing.T, found Result) string {
	t.Helper()
	var out strings.Builder
	if err := WriteResult(&out, found, testNow); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// tc is a state of a cluster, and the text that explains an object in it.
type tc struct {
	objects string
	// forbidden are the kinds that the user may not read.
	forbidden []string
	want      string
}

// checkExplained compares the texts for an object.
func checkExplained(t *testing.T, resource, name string, tests map[string]tc) {
	t.Helper()
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got := written(t, fakeCluster(t, test.objects, test.forbidden...).explains(t, resource, name))
			if strings.TrimSpace(got) != strings.TrimSpace(test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}
