package jupyter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// faults are between an operator and the API server. The first requests of each operation
// on children of notebooks fail in different ways.
type faults struct {
	all []fault

	mu sync.Mutex
	// met counts those of an operation.
	met map[string]int
}

// fault answers a request in place of the API server.
type fault func(next http.RoundTripper, r *http.Request) (*http.Response, error)

// allFaults are what each operation meets. The last has been carried out.
var allFaults = []fault{
	status(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	status(http.StatusConflict, metav1.StatusReasonConflict),
	status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	lost,
}

// ofNotebooks are the resources whose requests meet faults.
var ofNotebooks = []string{"jupyters", "statefulsets", "services", "persistentvolumeclaims", "secrets", "ingresses", "pods", "events"}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if fault := f.next(r); fault != nil {
			return fault(next, r)
		}
		return next.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// next returns what a request meets; nil if that is the API server.
func (f *faults) next(r *http.Request) fault {
	verb, resource := operationOf(r)
	if !slices.Contains(ofNotebooks, strings.TrimSuffix(resource, "/status")) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := verb + " " + resource
	n := f.met[key]
	if n == len(f.all) {
		return nil
	}
	f.met[key]++
	return f.all[n]
}

// spared returns those of the operations that have not met every fault.
func (f *faults) spared(operations ...string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(operations), func(o string) bool { return f.met[o] == len(f.all) })
}

var resourcePath = regexp.MustCompile(`^/(?:api|apis/[^/]+)/[^/]+/(?:namespaces/[^/]+/)?([^/]+)(?:/([^/]+))?(/[^/]+)?$`)

// operationOf returns the verb, as a role would name it but for "apply", and the
// resource with its subresource.
func operationOf(r *http.Request) (verb, resource string) {
	parts := resourcePath.FindStringSubmatch(r.URL.Path)
	if parts == nil {
		return "", ""
	}
	resource = parts[1] + parts[3]
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		verb = "watch"
	case r.Method == http.MethodGet && parts[2] == "":
		verb = "list"
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType):
		verb = "apply"
	default:
		verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
			http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[r.Method]
	}
	return verb, resource
}

// status refuses a request before it reaches the API server.
func status(code int32, reason metav1.StatusReason) fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "a fault of the test",
		})
		return &http.Response{
			StatusCode: int(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		}, err
	}
}

// lost carries a request out and loses the answer.
func lost(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // what is answered has been done
	return nil, errors.New("the connection was lost")
}

// whole asks for one of every child.
const whole = "storage: {size: 1Gi}\naccess: {type: Ingress, host: nb.example.org}\n"

// theFaulty are the notebooks of the test: their last spec, their state or its reason, and
// the kinds of their children.
var theFaulty = map[string]struct {
	spec     string
	reason   string
	children string
}{
	"whole-0":       {spec: whole, reason: v1alpha1.ReasonReady, children: "claim ingress pod secret service set"},
	"whole-1":       {spec: whole, reason: v1alpha1.ReasonReady, children: "claim ingress pod secret service set"},
	"whole-2":       {spec: whole, reason: v1alpha1.ReasonReady, children: "claim ingress pod secret service set"},
	"given":         {spec: "storage: {existingClaim: given}", reason: v1alpha1.ReasonReady, children: "pod secret service set"},
	"changed":       {spec: whole + "image: example.org/nb:1\nupdateStrategy: {type: Recreate}", reason: v1alpha1.ReasonReady, children: "claim pod secret service set"},
	"suspended":     {spec: whole, reason: v1alpha1.ReasonSuspended, children: "claim ingress secret service set"},
	"resumed":       {reason: v1alpha1.ReasonReady, children: "pod secret service set"},
	"deleted":       {spec: "storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}\naccess: {type: Ingress, host: nb.example.org}"},
	"taken":         {reason: diagnosis.ReasonResourceConflict, children: "secret"},
	"unschedulable": {spec: impatient + "template: {spec: {nodeSelector: {no: such}}}", reason: diagnosis.ReasonFailedScheduling, children: "pod secret service set"},
}

// Whatever the API server refuses or does not confirm: every child is created once, and
// objects of other owners stay unchanged.
func TestNotebooksConvergeThroughFaultsOfEveryOperation(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, as TestARestartRepeatsNoEventAndRewritesNoStatus does")
	t.Parallel()
	c := cluster.Start(t, cluster.Whole(1))
	s := sceneIn(t, c)
	foreign := []client.Object{
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{v1alpha1.LabelJupyter: "whole-0"}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "given"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}
	for _, o := range foreign {
		s.make(o)
	}
	// Afterwards, Kubernetes changes the claim no more.
	s.g.Eventually(func() (corev1.PersistentVolumeClaim, error) {
		claim := foreign[2].(*corev1.PersistentVolumeClaim)
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
		return *claim, err
	}).Should(And(HaveField("Status.Phase", corev1.ClaimBound), HaveField("Finalizers", Not(BeEmpty()))))
	before := s.contents(foreign)

	kinds := size.Choose(t, 0, 2, len(allFaults), "kinds of faults")
	f := &faults{all: allFaults[len(allFaults)-kinds:], met: map[string]int{}}
	c.StartOperatorThrough(t, f.wrap)
	for _, name := range slices.Sorted(maps.Keys(theFaulty)) {
		j := cluster.Manifest(t, v1alpha1.KindJupyter, s.namespace, name, theFaulty[name].spec)
		if name == "resumed" {
			j.SetAnnotations(map[string]string{v1alpha1.AnnotationCulledAt: "2026-01-01T00:00:00Z"})
		}
		s.make(j)
	}
	s.interfere()
	s.g.Eventually(func() []string { return f.spared(everyOperation...) }).WithTimeout(patience).
		Should(BeEmpty(), "these have met too few faults")
	for name, n := range theFaulty {
		if n.reason != "" {
			s.g.Eventually(func() string { return s.reasonOf(name) }).WithTimeout(patience).Should(Equal(n.reason), name)
		}
	}

	var expected []string
	for name, n := range theFaulty {
		for kind := range strings.FieldsSeq(n.children) {
			expected = append(expected, kind+" "+name)
		}
	}
	slices.Sort(expected)
	s.g.Eventually(s.children).WithTimeout(patience).Should(Equal(expected))
	s.g.Expect(s.contents(foreign)).To(Equal(before), "what is foreign was touched")
	s.g.Eventually(s.allEvents).Should(And(
		HaveKeyWithValue("taken "+diagnosis.ReasonResourceConflict, 1),
		HaveKeyWithValue("unschedulable "+diagnosis.ReasonFailedScheduling, 1),
		HaveKeyWithValue("changed ReplacedPod", 1),
		HaveKeyWithValue("whole-0 CreatedPod", 1),
	))
}

// everyOperation is what it takes to bring the notebooks about.
var everyOperation = []string{
	"watch jupyters", "watch statefulsets", "watch services", "watch persistentvolumeclaims", "watch secrets", "watch ingresses", "watch pods",
	"list secrets", "list events",
	"create statefulsets", "create services", "create persistentvolumeclaims", "create secrets", "create ingresses", "create events",
	"get statefulsets", "get services", "get persistentvolumeclaims", "get secrets", "get ingresses",
	"apply statefulsets", "apply services", "apply persistentvolumeclaims", "apply secrets", "apply ingresses",
	"patch statefulsets", "patch services", "patch persistentvolumeclaims", "patch secrets", "patch ingresses", "patch jupyters",
	"update jupyters/status", "delete ingresses", "delete pods",
}

// interfere changes notebooks, and what they are made of, while they come about.
func (s *scene) interfere() {
	s.t.Helper()
	s.g.Expect(s.Client.Delete(s.t.Context(), &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deleted"}})).To(Succeed())
	patch := func(o client.Object, name, text string) {
		s.t.Helper()
		o.SetNamespace(s.namespace)
		o.SetName(name)
		s.g.Eventually(func() error {
			return s.Client.Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)))
		}).WithTimeout(patience).Should(Succeed())
	}
	patch(&v1alpha1.Jupyter{}, "suspended", `{"spec": {"suspend": true}}`)
	s.g.Eventually(func() string { return s.reasonOf("changed") }).WithTimeout(patience).Should(Equal(v1alpha1.ReasonReady))
	patch(&v1alpha1.Jupyter{}, "changed", `{"spec": {"image": "example.org/nb:2", "access": null}}`)
	// It is not known any more what was written last.
	const forgotten = `{"metadata": {"annotations": {"bongsu.io/applied": null}}}`
	patch(&corev1.PersistentVolumeClaim{}, "whole-0", forgotten)
	patch(&corev1.Service{}, "whole-1", forgotten)
	patch(&networkingv1.Ingress{}, "whole-1", forgotten)
	patch(&appsv1.StatefulSet{}, "whole-2", forgotten)
	patch(&corev1.Secret{}, "whole-2-token", `{"data": {"token": ""}}`)
	s.g.Eventually(func() (string, error) {
		var pod corev1.Pod
		err := s.Client.Get(s.t.Context(), keyOf(s.namespace, "changed-0"), &pod)
		if err != nil {
			return "", err
		}
		return pod.Spec.Containers[0].Image, nil
	}).WithTimeout(patience).Should(Equal("example.org/nb:2"))
	s.g.Eventually(func() ([]byte, error) {
		var token corev1.Secret
		err := s.Client.Get(s.t.Context(), keyOf(s.namespace, "whole-2-token"), &token)
		return token.Data["token"], err
	}).WithTimeout(patience).ShouldNot(BeEmpty())
}

// reasonOf is the reason of a notebook's state, or else the state, of its present
// generation.
func (s *scene) reasonOf(name string) string {
	var j v1alpha1.Jupyter
	if err := s.Client.Get(s.t.Context(), keyOf(s.namespace, name), &j); err != nil {
		return err.Error()
	}
	return cluster.Reason(&j)
}

// children are the children of the notebooks, by kind and notebook. A child with an
// unexpected name is listed with that name.
func (s *scene) children() []string {
	found := []string{}
	for _, of := range []struct {
		kind, suffix string
		list         client.ObjectList
	}{
		{"set", "", &appsv1.StatefulSetList{}},
		{"service", "", &corev1.ServiceList{}},
		{"claim", "", &corev1.PersistentVolumeClaimList{}},
		{"ingress", "", &networkingv1.IngressList{}},
		{"secret", "-token", &corev1.SecretList{}},
		{"pod", "-0", &corev1.PodList{}},
	} {
		s.g.Expect(s.Client.List(s.t.Context(), of.list, client.InNamespace(s.namespace),
			client.MatchingLabels{"app.kubernetes.io/managed-by": "bongsu"})).To(Succeed())
		s.g.Expect(meta.EachListItem(of.list, func(o runtime.Object) error {
			child := o.(client.Object)
			name := child.GetLabels()[v1alpha1.LabelJupyter]
			key := of.kind + " " + name
			if name+of.suffix != child.GetName() {
				key += " called " + child.GetName()
			}
			found = append(found, key)
			return nil
		})).To(Succeed())
	}
	slices.Sort(found)
	return found
}

// versions are those of objects as they are now.
func (s *scene) versions(objects []client.Object) []string {
	s.t.Helper()
	var versions []string
	for _, o := range objects {
		s.g.Expect(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		versions = append(versions, o.GetName()+" "+string(o.GetUID())+" "+o.GetResourceVersion())
	}
	return versions
}

// contents are those of objects as they are now. Kubernetes changes the status of a claim
// when a pod uses it, so the status does not count.
func (s *scene) contents(objects []client.Object) []string {
	s.t.Helper()
	var contents []string
	for _, o := range objects {
		u := &unstructured.Unstructured{}
		gvk, err := s.Client.GroupVersionKindFor(o)
		s.g.Expect(err).NotTo(HaveOccurred())
		u.SetGroupVersionKind(gvk)
		s.g.Expect(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(o), u)).To(Succeed())
		u.SetResourceVersion("")
		u.SetManagedFields(nil)
		delete(u.Object, "status")
		contents = append(contents, fmt.Sprint(u.Object))
	}
	return contents
}

// allEvents counts the Events on all Jupyters, by Jupyter and reason.
func (s *scene) allEvents() map[string]int {
	counts := map[string]int{}
	for _, e := range s.events() {
		counts[e.InvolvedObject.Name+" "+e.Reason]++
	}
	return counts
}
