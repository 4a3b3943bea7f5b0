package alarms_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/alarms"
)

var (
	suspendedAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	resumedAt   = suspendedAt.Add(time.Hour)
	editedAt    = suspendedAt.Add(2 * time.Hour)
)

// entry is an entry of managedFields.
func entry(at time.Time, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource,
		Time: new(metav1.NewTime(at)), FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestTheTimeOfAResumptionIsKnownAfterARestart(t *testing.T) {
	const (
		onlySuspend = `{"f:spec":{".":{},"f:suspend":{}}}`
		manifest    = `{"f:metadata":{"f:labels":{}},"f:spec":{"f:match":{},"f:suspend":{}}}`
		other       = `{"f:spec":{"f:message":{}}}`
	)
	before := entry(suspendedAt, "", other)
	statusWrite := entry(editedAt.Add(time.Hour), "status", onlySuspend)
	for name, tc := range map[string]struct {
		state   v1alpha1.State
		resumed *metav1.Time
		entries []metav1.ManagedFieldsEntry
		want    time.Time
	}{
		"never suspended":                        {state: v1alpha1.StateReady, entries: []metav1.ManagedFieldsEntry{entry(editedAt, "", manifest), statusWrite}},
		"seen, and patched":                      {state: v1alpha1.StateSuspended, entries: []metav1.ManagedFieldsEntry{before, entry(resumedAt, "", onlySuspend), entry(editedAt, "", other), statusWrite}, want: resumedAt},
		"seen, and the manifest applied":         {state: v1alpha1.StateSuspended, entries: []metav1.ManagedFieldsEntry{before, entry(resumedAt, "", manifest), statusWrite}, want: resumedAt},
		"seen, and no manager owns the field":    {state: v1alpha1.StateSuspended, entries: []metav1.ManagedFieldsEntry{before, entry(resumedAt, "", other), statusWrite}, want: resumedAt},
		"seen, and managedFields were removed":   {state: v1alpha1.StateSuspended},
		"not seen, and patched":                  {state: v1alpha1.StateReady, entries: []metav1.ManagedFieldsEntry{entry(editedAt, "", other), entry(resumedAt, "", onlySuspend), statusWrite}, want: resumedAt},
		"killed after the status was written":    {state: v1alpha1.StateReady, resumed: new(metav1.NewTime(resumedAt)), entries: []metav1.ManagedFieldsEntry{entry(editedAt, "", manifest)}, want: resumedAt},
		"suspended and resumed for another time": {state: v1alpha1.StateSuspended, resumed: new(metav1.NewTime(resumedAt)), entries: []metav1.ManagedFieldsEntry{entry(editedAt, "", manifest)}, want: editedAt},
		"damaged":                                {state: v1alpha1.StateReady, entries: []metav1.ManagedFieldsEntry{entry(resumedAt, "", `{"f:suspend`), {}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
			o.Status.State, o.Status.ResumedTime = tc.state, tc.resumed
			for _, where := range []string{"API server", "cache", "cache, trimmed twice"} {
				if got := alarms.ResumedAt(o); !got.Equal(tc.want) {
					t.Errorf("read from the %s: %v, want %v", where, got, tc.want)
				}
				if _, err := alarms.TrimManagedFields(o); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestTheStatusShowsWhenAnAlarmWasResumed(t *testing.T) {
	s := newScene(t)
	s.create("Alarm", "it", "match: [{}]"+tail)
	g, it := NewWithT(t), s.alarm("it")
	read := func() v1alpha1.AlarmStatus {
		g.Expect(s.Client.Get(t.Context(), client.ObjectKeyFromObject(it), it)).To(Succeed())
		return it.Status
	}
	g.Eventually(func() v1alpha1.State { return read().State }).Should(Equal(v1alpha1.StateReady))
	g.Expect(read().ResumedTime).To(BeNil())
	s.patch(s.alarm("it"), `{"spec":{"suspend":true}}`)
	g.Eventually(func() v1alpha1.State { return read().State }).Should(Equal(v1alpha1.StateSuspended))
	g.Expect(it.Status.ResumedTime).To(BeNil())
	s.patch(s.alarm("it"), `{"spec":{"suspend":null}}`) // the default is false
	g.Eventually(func() *metav1.Time { return read().ResumedTime }).ShouldNot(BeNil())
	g.Expect(it.Status.State).To(Equal(v1alpha1.StateReady))
	managers := map[string]time.Time{}
	for _, e := range it.ManagedFields {
		if e.Subresource == "" {
			managers[e.Manager] = e.Time.Time
		}
	}
	g.Expect(managers).To(ContainElement(BeTemporally("==", it.Status.ResumedTime.Time)), "the operator's cache drops no managedFields from the API server")
}

// A manager that patches only spec.suspend has an entry of its own.
func TestAnAlarmThatWasSuspendedUnseenIsResumedAtTheTimeOfThePatch(t *testing.T) {
	s := newScene(t)
	s.create("Alarm", "it", "match: [{}]"+tail)
	g, it := NewWithT(t), s.alarm("it")
	for _, suspend := range []string{"true", "false"} {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":`+suspend+`}}`))
		g.Expect(s.Client.Patch(t.Context(), s.alarm("it"), patch, client.FieldOwner("kubectl-patch"))).To(Succeed())
	}
	g.Expect(s.Client.Get(t.Context(), client.ObjectKeyFromObject(it), it)).To(Succeed())
	it.Status = v1alpha1.AlarmStatus{} // as if no operator ran
	var want time.Time
	for _, e := range it.ManagedFields {
		if e.Manager == "kubectl-patch" {
			want = e.Time.Time
		}
	}
	g.Expect(want.IsZero()).To(BeFalse())
	g.Expect(alarms.ResumedAt(it)).To(BeTemporally("==", want))
}
