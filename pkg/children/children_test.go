package children

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// family is a fake API server with Children and a cache that may be stale.
type family struct {
	client.WithWatch
	children *Children
	// unseen: the cache is still empty.
	unseen bool
	// seen is the stale object in the cache.
	seen   client.Object
	writes []string
	// applied is the UID of the last apply, and appliedTo its resourceVersion.
	applied   types.UID
	appliedTo string
	// refusals is the number of applies that are refused as invalid.
	refusals int
}

var testNames = Names{Domain: "bongsu.io", FieldOwner: "bongsu"}

func newFamily(objects ...client.Object) *family {
	f := &family{}
	server := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithReturnManagedFields().Build()
	f.WithWatch = server
	f.children = New(interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if f.unseen {
				return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
			}
			if f.seen != nil {
				return assign(o, f.seen)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			f.writes = append(f.writes, "create")
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			f.writes = append(f.writes, "patch")
			return c.Patch(ctx, o, patch, opts...)
		},
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			f.writes = append(f.writes, "apply")
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			f.applied = (&unstructured.Unstructured{Object: content}).GetUID()
			f.appliedTo = (&unstructured.Unstructured{Object: content}).GetResourceVersion()
			if f.refusals > 0 {
				f.refusals--
				return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "nb", nil)
			}
			return err
		},
	}), interceptor.NewClient(server, interceptor.Funcs{Get: readOver}), testNames)
	return f
}

// readOver keeps the fields that the response omits, as real clients do.
func readOver(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	now := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, key, now, opts...); err != nil {
		return err
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, o)
}

func (f *family) expectWrites(t *testing.T, want ...string) {
	t.Helper()
	if got := f.writes; len(got) != len(want) || len(want) > 0 && got[len(got)-1] != want[len(want)-1] {
		t.Errorf("written %q, want %q", got, want)
	}
	f.writes = nil
}

func wantedService(owner types.UID) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nb", Labels: map[string]string{"bongsu.io/jupyter": "nb"}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "bongsu.io/v1alpha1", Kind: "Jupyter", Name: "nb", UID: owner, Controller: new(true)},
		}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"bongsu.io/jupyter": "nb"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func TestChildIsCreatedOnceAndUpdatedOnlyForAChange(t *testing.T) {
	f := newFamily()
	ensure := func(wanted *corev1.Service) {
		t.Helper()
		if err := f.children.Ensure(t.Context(), wanted, &corev1.Service{}); err != nil {
			t.Fatal(err)
		}
	}
	ensure(wantedService("me"))
	f.expectWrites(t, "create")
	ensure(wantedService("me"))
	f.expectWrites(t)
	f.unseen = true // the cache is stale
	ensure(wantedService("me"))
	f.expectWrites(t, "create")
	f.unseen = false

	var found corev1.Service
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "nb"}, &found); err != nil {
		t.Fatal(err)
	}
	found.UID = "of-the-first"
	if err := f.Update(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	less := wantedService("me")
	less.Labels = nil
	ensure(less)
	f.expectWrites(t, "patch", "apply")
	if f.applied != "of-the-first" {
		t.Errorf("applied for UID %q: it may be another object by now", f.applied)
	}
}

func TestAnEditByAnotherClientIsReportedBeforeItIsReverted(t *testing.T) {
	f := newFamily()
	var reverted []string
	ensure := func(port int32, want ...string) {
		t.Helper()
		wanted := wantedService("me")
		wanted.Spec.Ports[0].Port = port
		err := f.children.Ensure(t.Context(), wanted, &corev1.Service{}, BeforeRevert(func(_ context.Context, edited client.Object) error {
			reverted = append(reverted, fmt.Sprint(edited.(*corev1.Service).Spec.Ports[0].Port))
			return nil
		}))
		if err != nil || !slices.Equal(reverted, want) {
			t.Errorf("reverted %q, error %v; want %q", reverted, err, want)
		}
		reverted = nil
	}
	edit := func(change func(*corev1.Service)) {
		t.Helper()
		var service corev1.Service
		if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "nb"}, &service); err != nil {
			t.Fatal(err)
		}
		change(&service)
		if err := f.Update(t.Context(), &service, client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	ensure(80)
	ensure(81) // the spec changed; the fake does not apply it
	edit(func(s *corev1.Service) { s.Spec.Ports[0].Port = 79 })
	ensure(80, "79")
	edit(func(s *corev1.Service) { s.Spec.Ports[0].Port, s.Annotations[testNames.Applied()] = 78, "earlier" })
	ensure(80, "78")
}

func TestAnEditThatCannotBeReportedIsNotReverted(t *testing.T) {
	edited := wantedService("me")
	f := newFamily(edited)
	failed := errors.New("unavailable")
	err := f.children.Ensure(t.Context(), wantedService("me"), &corev1.Service{}, BeforeRevert(func(context.Context, client.Object) error { return failed }))
	if !errors.Is(err, failed) {
		t.Errorf("got error %v", err)
	}
	f.expectWrites(t)
}

func TestObjectOfAnotherOwnerIsAConflictAndNotWritten(t *testing.T) {
	ofAnother := wantedService("another")
	ofNone := wantedService("")
	ofNone.OwnerReferences = nil
	for name, foreign := range map[string]*corev1.Service{"of another owner": ofAnother, "without an owner": ofNone} {
		for _, unseen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newFamily(foreign)
				f.unseen = unseen
				err := f.children.Ensure(t.Context(), wantedService("me"), &corev1.Service{})
				var conflict *ConflictError
				if !errors.As(err, &conflict) || conflict.Kind != "Service" || conflict.Name != "nb" {
					t.Errorf("error %v, want a conflict", err)
				}
				var after corev1.Service
				if err := f.Get(t.Context(), client.ObjectKeyFromObject(foreign), &after); err != nil {
					t.Fatal(err)
				}
				if after.ResourceVersion != "999" { // the first of the fake server
					t.Errorf("it was written: resourceVersion %s", after.ResourceVersion)
				}
			})
		}
	}
}

func TestStaleObjectIsReadAgainBeforeAnUpdate(t *testing.T) {
	ours := wantedService("me")
	ours.UID = "1"
	ours.Spec.Ports[0].Port = 81 // so that an update is needed
	foreign, ofNone := wantedService("another"), wantedService("")
	ofNone.OwnerReferences = nil
	going := wantedService("me")
	going.DeletionTimestamp, going.Finalizers = new(metav1.Now()), []string{"a/b"}
	right, err := New(nil, nil, testNames).prepare(wantedService("me"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		now      client.Object
		conflict bool
	}{
		"belongs to another owner by now": {foreign, true},
		"has no owner by now":             {ofNone, true},
		"is being deleted":                {going, false},
		"it was put right":                {right, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.now.SetUID("2")
			f := newFamily(tc.now)
			f.seen = ours
			var found corev1.Service
			err := f.children.Ensure(t.Context(), wantedService("me"), &found)
			var conflict *ConflictError
			if errors.As(err, &conflict) != tc.conflict || !tc.conflict && err != nil {
				t.Errorf("error %v, want a conflict: %v", err, tc.conflict)
			}
			if found.UID != "2" {
				t.Errorf("found UID %q, want what there is", found.UID)
			}
			f.expectWrites(t)
		})
	}
}

// Another edit can make the object invalid again. Then the second apply fails because of the
// resourceVersion, which is retried, and does not look like an invalid spec of the owner.
func TestAfterTheSpecWasReplacedTheApplyIsForThatVersion(t *testing.T) {
	edited := wantedService("owner")
	edited.Spec.Ports[0].Port = 81
	f := newFamily(edited)
	f.refusals = 1
	if err := f.children.Ensure(t.Context(), wantedService("owner"), &corev1.Service{}); err != nil {
		t.Fatal(err)
	}
	var now corev1.Service
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(edited), &now); err != nil {
		t.Fatal(err)
	}
	if now.Spec.Ports[0].Port != 80 || f.appliedTo != now.ResourceVersion {
		t.Errorf("port %d, applied to version %q, want port 80 and version %q", now.Spec.Ports[0].Port, f.appliedTo, now.ResourceVersion)
	}
}

func TestOnlyAClaimIsAdoptedWithoutAnOwner(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "ns", Name: "nb", Labels: map[string]string{"bongsu.io/jupyter": "nb"},
		Annotations: map[string]string{testNames.ownerUID(): "earlier"},
	}
	wanted := wantedService("me").ObjectMeta
	for name, tc := range map[string]struct {
		wanted, there, found client.Object
		conflict             bool
	}{
		"a claim":   {&corev1.PersistentVolumeClaim{ObjectMeta: wanted}, &corev1.PersistentVolumeClaim{ObjectMeta: meta}, &corev1.PersistentVolumeClaim{}, false},
		"a Service": {&corev1.Service{ObjectMeta: wanted}, &corev1.Service{ObjectMeta: meta}, &corev1.Service{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(tc.there)
			err := f.children.Ensure(t.Context(), tc.wanted, tc.found)
			var conflict *ConflictError
			if errors.As(err, &conflict) != tc.conflict || !tc.conflict && err != nil {
				t.Errorf("error %v, want a conflict: %v", err, tc.conflict)
			}
		})
	}
}

func TestSecretKeepsItsValues(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: wantedService("me").ObjectMeta, Data: map[string][]byte{"token": []byte(value)}}
	}
	for name, unseen := range map[string]bool{"that was there": false, "that came in between": true} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(secret("first"))
			f.unseen = unseen
			var found corev1.Secret
			if err := f.children.Ensure(t.Context(), secret("second"), &found); err != nil {
				t.Fatal(err)
			}
			if got := string(found.Data["token"]); got != "first" || f.applied != "" {
				t.Errorf("found %q, applied for %q; want what there was", got, f.applied)
			}
		})
	}
	t.Run("but none that is empty", func(t *testing.T) {
		f := newFamily(secret(""))
		if err := f.children.Ensure(t.Context(), secret("second"), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		f.expectWrites(t, "apply")
	})
}

// A tenant who can create Secrets can make one with these marks, and then knows its values.
func TestSecretThatWasMadeForAnotherOwnerGetsNewValues(t *testing.T) {
	wanted := &corev1.Secret{ObjectMeta: wantedService("me").ObjectMeta, Data: map[string][]byte{"token": []byte("new")}}
	wanted.Annotations = map[string]string{testNames.ownerUID(): "me"}
	for name, tc := range map[string]struct {
		controller bool
		madeFor    types.UID
		want       string
	}{
		"of the owner":                           {true, "me", "known"},
		"of the owner, without a mark":           {true, "", "known"},
		"of the owner, with another mark":        {true, "another", "known"},
		"of the owner, without a reference":      {false, "me", "known"},
		"of a former owner, or made by a tenant": {false, "another", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			there := wanted.DeepCopy()
			there.Data["token"] = []byte("known")
			there.Annotations[testNames.ownerUID()] = string(tc.madeFor)
			if !tc.controller {
				there.OwnerReferences = nil
			}
			if own := testNames.IsMadeFor(wanted, there); own != (tc.want == "known") {
				t.Errorf("made for the owner: %v", own)
			}
			var found corev1.Secret
			if err := newFamily(there).children.Ensure(t.Context(), wanted, &found); err != nil {
				t.Fatal(err)
			}
			if got := string(found.Data["token"]); got != tc.want || !testNames.IsMadeFor(wanted, &found) {
				t.Errorf("token %q, want %q; marks %v", got, tc.want, found.Annotations)
			}
		})
	}
}
