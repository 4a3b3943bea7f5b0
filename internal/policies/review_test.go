package policies

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/policies/specs"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

// gateOf returns a gate that expects the policies "a" and "b", and a fake API server with objects.
func gateOf(t *testing.T, objects ...client.Object) *Gate {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Alarm{}).WithObjects(objects...).Build()
	var manifests []*unstructured.Unstructured
	for _, name := range []string{"a", "b"} {
		manifests = append(manifests, &unstructured.Unstructured{Object: map[string]any{
			"kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": name}, "spec": map[string]any{"matchConstraints": map[string]any{}},
		}})
	}
	expected, err := specs.FromManifests(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return &Gate{Dependencies: Dependencies{
		Expected: expected, Live: api, Client: api, Record: recordKey, Clock: clocktesting.NewFakeClock(at(100).Time),
		Lists: []func() client.ObjectList{func() client.ObjectList { return &v1alpha1.AlarmList{} }},
	}}
}

var recordKey = client.ObjectKey{Namespace: "bongsu-system", Name: "bongsu-policies"}

func policy(name, uid string, created int) admissionv1.ValidatingAdmissionPolicy {
	return admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: at(created)}}
}

// alarm returns an Alarm of generation 2. The operator has observed it up to another one.
func alarm(name string, created int, observed int64) *v1alpha1.Alarm {
	a := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 2, CreationTimestamp: at(created)}}
	a.Status.ObservedGeneration = observed
	return a
}

func TestTheGateStaysClosedForFiveSecondsAfterThePoliciesAreBack(t *testing.T) {
	g := gateOf(t)
	clk := g.Clock.(*clocktesting.FakeClock)
	for _, tc := range []struct {
		step time.Duration
		want bool
	}{{0, true}, {5*time.Second - 1, true}, {1, false}} {
		clk.Step(tc.step)
		if got := g.isSettling(); got != tc.want {
			t.Errorf("after %v more: settling is %v, want %v", tc.step, got, tc.want)
		}
	}
}

func TestADeletionIsNoChangeOfTheSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		observed, generation int64
		deleted, want        bool
	}{
		"not changed":          {1, 1, false, true},
		"changed":              {1, 2, false, false},
		"deleted":              {1, 2, true, true},
		"changed and deleted":  {1, 3, true, false},
		"created and deleted":  {0, 2, true, false},
		"deleted and observed": {2, 2, true, true},
	} {
		a := alarm(name, 0, tc.observed)
		if a.Generation = tc.generation; tc.deleted {
			a.DeletionTimestamp = new(at(1))
		}
		if got := isObserved(a); got != tc.want {
			t.Errorf("%s: observed is %v, want %v", name, got, tc.want)
		}
	}
}

func TestReviewMarksWhatWasWrittenWithoutAPolicy(t *testing.T) {
	recorded := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: recordKey.Namespace, Name: recordKey.Name, UID: "record"}, Data: data}
	}
	all := []string{"changed", "during", "soon", "later"}
	for name, tc := range map[string]struct {
		record *corev1.ConfigMap
		back   bool
		want   []string
	}{
		"nothing was missing":             {record: recorded(map[string]string{"policy.a": "a1", "policy.b": "b1"})},
		"a policy is new in this version": {record: recorded(map[string]string{"policy.a": "a1"})},
		"a policy was created again":      {record: recorded(map[string]string{"policy.a": "a0", "policy.b": "b1"}), want: []string{"changed", "during"}},
		"the last one was":                {record: recorded(map[string]string{"policy.a": "a0", "policy.b": "b0"}), want: []string{"changed", "during", "soon"}},
		"there is no record":              {want: []string{"changed", "during"}},
		"the gate was closed":             {record: recorded(map[string]string{"policy.a": "a1", "policy.b": "b1"}), back: true, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{alarm("trusted", 0, 2), alarm("changed", 0, 1), alarm("during", 15, 0), alarm("soon", 22, 0), alarm("later", 60, 0)}
			if tc.record != nil {
				objects = append(objects, tc.record)
			}
			g := gateOf(t, objects...)
			if tc.back {
				g.backAt = at(95).Time
			}
			if err := g.review(t.Context(), []admissionv1.ValidatingAdmissionPolicy{policy("a", "a1", 15), policy("b", "b1", 20), policy("other", "x", 90)}, nil); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range append([]string{"trusted"}, all...) {
				a := alarm(name, 0, 0)
				cached := a.DeepCopy() // without the mark
				if err := g.Live.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
					t.Fatal(err)
				}
				cached.Status.ObservedGeneration = a.Status.ObservedGeneration
				if g.IsUnchecked(a) != g.IsUnchecked(cached) {
					t.Errorf("%s is unchecked only with or only without a late cache", name)
				}
				if g.IsUnchecked(a) {
					got = append(got, name)
				}
				restarted := &Gate{}
				if restarted.IsUnchecked(a) != g.IsUnchecked(a) {
					t.Errorf("a restart changes whether %s is unchecked", name)
				}
				if a.Generation++; g.IsUnchecked(a) {
					t.Errorf("%s is unchecked after a change of its spec", name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			record := &corev1.ConfigMap{}
			if err := g.Live.Get(t.Context(), recordKey, record); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"policy.a": "a1", "policy.b": "b1"}, record.Data); diff != "" {
				t.Error(diff)
			}
		})
	}
}
