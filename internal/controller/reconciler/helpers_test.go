package reconciler

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The test reads in the code of the controllers which reasons they use.
func TestReasonsOfControllersAreCauses(t *testing.T) {
	reasons := map[string]string{} // by the names of their constants
	declared := regexp.MustCompile(`(?m)^\t(Reason\w+) = "(\w+)"$`)
	for _, m := range declared.FindAllStringSubmatch(readFiles(t, "../../../pkg/diagnosis/reasons.go")+readFiles(t, "../../../api/v1alpha1/conditions.go"), -1) {
		reasons[m[1]] = m[2]
	}
	used := regexp.MustCompile(`(?:diagnosis\.Cause\{\s*Reason: |\.Add\(no\w+\()(?:v1alpha1|diagnosis)\.(Reason\w+)`)
	found := used.FindAllStringSubmatch(readFiles(t, "../*/*.go"), -1)
	if len(found) < 5 {
		t.Errorf("the test found only %d reasons", len(found))
	}
	for _, m := range found {
		if reason := reasons[m[1]]; !diagnosis.IsCause(reason) {
			t.Errorf("%s (%s) is not a cause", m[1], reason)
		}
	}
}

func readFiles(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// The cache can be late: the object was deleted since, and no one would remove a child
// without an owner reference.
func TestAChildWithoutAnOwnerReferenceIsCreatedOnlyForAnExistingOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	owner := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "1"}}
	recreated := owner.DeepCopy()
	recreated.UID = "2"
	deleted := owner.DeepCopy()
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{"a.example/b"}
	for name, tc := range map[string]struct {
		live    []client.Object
		created bool
	}{
		"it exists":                        {[]client.Object{owner}, true},
		"it was deleted":                   {nil, false},
		"it is deleted":                    {[]client.Object{deleted}, false},
		"it was deleted and created again": {[]client.Object{recreated}, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.live...).Build()
			h := &Helpers{Client: live, Live: live, Children: children.New(live, live, kube.ChildNames)}
			child := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "web", Annotations: map[string]string{v1alpha1.AnnotationOwnerUID: "1"},
			}}
			_, err := h.Ensure(t.Context(), &Findings{Kind: v1alpha1.KindAppService, Owner: owner}, child, &corev1.Service{})
			if (err == nil) != tc.created || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("error %v, want a conflict: %v", err, !tc.created)
			}
			err = live.Get(t.Context(), client.ObjectKeyFromObject(child), &corev1.Service{})
			if apierrors.IsNotFound(err) == tc.created {
				t.Errorf("the child: %v, want one: %v", err, tc.created)
			}
		})
	}
}

func TestARejectedChildIsExplainedInTheTermsOfItsOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	invalid := func(path *field.Path) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "nb", field.ErrorList{field.Forbidden(path, "no")})
	}
	meta := metav1.ObjectMeta{Name: "nb", UID: "1"}
	claim := func(phase corev1.PersistentVolumeClaimPhase, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	sized := func(size string, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		return c
	}
	set := &appsv1.StatefulSet{ObjectMeta: meta}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "notebook"}, {Name: "side"}}
	owner := &v1alpha1.Jupyter{ObjectMeta: meta}
	owner.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "side"}}}}
	for name, tc := range map[string]struct {
		wanted, found client.Object
		err           error
		want          string
	}{
		"a smaller claim with a volume": {
			sized("5Gi", claim("", "")), sized("10Gi", claim(corev1.ClaimBound, "pv")), invalid(field.NewPath("spec")),
			`claim "nb" cannot be changed as spec.storage asks: undo the change, since a claim can only grow, or delete the claim and its files`,
		},
		"another class of a claim with a volume": {
			sized("10Gi", claim("", "")), sized("10Gi", claim(corev1.ClaimBound, "pv")), invalid(field.NewPath("spec")),
			`claim "nb" cannot be changed as spec.storage asks: undo the change, since only the size of a claim with a volume can change; for another storage class, create another Jupyter and copy the files`,
		},
		"a claim that was never bound": {
			claim("", ""), claim(corev1.ClaimPending, ""), invalid(field.NewPath("spec")),
			`claim "nb" cannot be changed as spec.storage asks: delete the claim, which has no volume and no files; it is created again as spec.storage asks`,
		},
		"a claim that is being bound": {
			sized("5Gi", claim("", "")), sized("10Gi", claim(corev1.ClaimPending, "pv")), invalid(field.NewPath("spec")),
			`claim "nb" cannot be changed as spec.storage asks: undo the change, since a claim can only grow, or delete the claim and its files`,
		},
		"a sidecar": {
			set, &appsv1.StatefulSet{}, invalid(field.NewPath("spec", "template", "spec", "containers").Index(1).Child("image")),
			`StatefulSet "nb" is rejected: spec.template.spec.containers[0].image: Forbidden: no: correct the field`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Findings{Kind: v1alpha1.KindJupyter, Owner: owner}
			h := &Helpers{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
			if _, err := h.Classify(f, tc.wanted, tc.found, tc.err); err != nil {
				t.Fatal(err)
			}
			if len(f.Known) != 1 || f.Known[0].Sentence() != tc.want {
				t.Errorf("got %+v, want %q", f.Known, tc.want)
			}
		})
	}
}

// kubectl delete --cascade=orphan removes the owner references of the children. The cache can
// be late: a child that gets its reference back would be deleted with its owner.
func TestAChildGetsItsOwnerReferenceBackOnlyForAnExistingOwner(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	owner := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "1"}}
	deleted := owner.DeepCopy()
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{metav1.FinalizerOrphanDependents}
	for name, tc := range map[string]struct {
		live    []client.Object
		adopted bool
	}{
		"it exists":      {[]client.Object{owner}, true},
		"it was deleted": {nil, false},
		"it is deleted":  {[]client.Object{deleted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "web", UID: "2", Annotations: map[string]string{v1alpha1.AnnotationOwnerUID: "1"},
			}}
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tc.live, kept)...).Build()
			h := New(live, live, clock.RealClock{}, "test")
			wanted := kept.DeepCopy()
			wanted.UID, wanted.OwnerReferences = "", []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindAppService, Name: "web", UID: "1", Controller: new(true),
			}}
			_, err := h.Ensure(t.Context(), &Findings{Kind: v1alpha1.KindAppService, Owner: owner}, wanted, &corev1.Service{})
			if (err == nil) != tc.adopted || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("error %v, want a conflict: %v", err, !tc.adopted)
			}
			var now corev1.Service
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(kept), &now); err != nil || (len(now.OwnerReferences) == 1) != tc.adopted {
				t.Errorf("owner references %v, %v, want one: %v", now.OwnerReferences, err, tc.adopted)
			}
		})
	}
}

// A user removed a label while the operator was down, and the field of the spec that asks for
// the child. The cache selects by the label.
func TestAnUnwantedChildThatTheCacheLacksIsDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "team", Name: "web"}
	child := &corev1.Service{ObjectMeta: meta}
	for name, tc := range map[string]struct {
		live []client.Object
		owns bool
		// left is whether a Service is left, and reads are those of two reconciles.
		left       bool
		reads      int
		generation int64
	}{
		"a child":                    {[]client.Object{child}, true, false, 2, 2},
		"an object of users":         {[]client.Object{child}, false, true, 1, 2},
		"nothing":                    {nil, true, false, 1, 2},
		"the spec has never changed": {nil, true, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.live...).Build()
			live := interceptor.NewClient(api, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				reads++
				return c.Get(ctx, key, o, opts...)
			}})
			cached := interceptor.NewClient(api, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
			}})
			h := New(cached, live, clock.RealClock{}, "test-controller")
			owner := &v1alpha1.AppService{ObjectMeta: meta}
			owner.Generation = tc.generation
			for range 2 {
				if err := h.RemoveUnwanted(t.Context(), owner, &corev1.Service{ObjectMeta: meta}, func(client.Object) bool { return tc.owns }); err != nil {
					t.Fatal(err)
				}
			}
			if reads != tc.reads {
				t.Errorf("%d requests, want %d", reads, tc.reads)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(child), &corev1.Service{}); (err == nil) != tc.left {
				t.Errorf("the Service: %v, want one: %v", err, tc.left)
			}
			owner.Generation++ // the spec has changed
			if err := h.RemoveUnwanted(t.Context(), owner, &corev1.Service{ObjectMeta: meta}, func(client.Object) bool { return tc.owns }); err != nil || reads != tc.reads+1 {
				t.Errorf("%v, %d requests after a change, want %d", err, reads, tc.reads+1)
			}
		})
	}
}
