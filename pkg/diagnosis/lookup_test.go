package diagnosis

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeLookup implements Lookup.
type fakeLookup struct {
	classes    map[string][]string
	classesErr error
	quotas     []corev1.ResourceQuota
	ranges     []corev1.LimitRange
	rangesErr  error
	pods       []*corev1.Pod
	podsUnread bool
	// claims can be read if they are not nil.
	claims []corev1.PersistentVolumeClaim
}

func (f fakeLookup) Classes(kind string) ([]string, error) {
	names, ok := f.classes[kind]
	if !ok {
		return nil, errors.New("forbidden")
	}
	return names, f.classesErr
}

func (f fakeLookup) Quotas() ([]corev1.ResourceQuota, error) { return f.quotas, nil }

func (f fakeLookup) LimitRanges() ([]corev1.LimitRange, error) { return f.ranges, f.rangesErr }

func (f fakeLookup) Pods() (pods []corev1.Pod, err error) {
	if f.podsUnread {
		return nil, errors.New("forbidden")
	}
	for _, p := range f.pods {
		pods = append(pods, *p)
	}
	return pods, nil
}

func (f fakeLookup) Claims() (claims []corev1.PersistentVolumeClaim, err error) {
	if f.claims == nil {
		return nil, errors.New("forbidden")
	}
	return f.claims, nil
}

func TestSystemClassesAreNeverAdvised(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  string
	}{
		"beside others": {[]string{"batch", "system-cluster-critical", "system-node-critical", "web"}, "use one of batch, web"},
		"alone":         {[]string{"system-cluster-critical", "system-node-critical"}, "omit priorityClassName, or ask the cluster's administrator for a class"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnosis{Cause: &Cause{Means: MeansMissingPriorityClass}}
			d.Complete(fakeLookup{classes: map[string][]string{"PriorityClass": tc.names}})
			if d.Cause.Advice != tc.want {
				t.Errorf("got %q, want %q", d.Cause.Advice, tc.want)
			}
		})
	}
}

// noLookup implements Lookup for causes that need none.
type noLookup struct {
	Lookup // panics
}

func TestClassesThatExistAreNamed(t *testing.T) {
	missing := claimEvent(5, ReasonProvisioningFailed, `storageclass.storage.k8s.io "fast" not found`)
	const ask = "use another one, or ask the cluster's administrator which ones exist"
	for name, tc := range map[string]struct {
		names []string
		err   error
		want  string
	}{
		"some":                 {names: []string{"slow", "standard"}, want: "use one of slow, standard"},
		"many":                 {names: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}, want: "use one of a, b, c, d, e, f, g, h, i, j and 1 more"},
		"none":                 {want: "the cluster has none; ask the cluster's administrator for one"},
		"they cannot be read":  {err: errors.New("forbidden"), want: ask},
		"they could be listed": {names: []string{"slow"}, err: errors.New("partly"), want: ask},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnose(Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{missing}})
			d.Complete(fakeLookup{classes: map[string][]string{"StorageClass": tc.names}, classesErr: tc.err})
			if d.Cause == nil || d.Cause.Advice != tc.want {
				t.Errorf("got %+v, want the advice %q", d.Cause, tc.want)
			}
		})
	}
	d := Diagnosis{Others: []Cause{{Message: `admission webhook "a" forbids it: StorageClass "b" does not exist in zone c`, Advice: "wait"}}}
	d.Complete(noLookup{})
}

func TestALimitRangeIsNamed(t *testing.T) {
	list := func(name, amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
	}
	ranges := func(items ...corev1.LimitRangeItem) []corev1.LimitRange {
		other := corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("cpu", "1"), Default: list("cpu", "1")}
		return []corev1.LimitRange{
			{ObjectMeta: metav1.ObjectMeta{Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: items}},
			{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{other}}},
		}
	}
	container := func(change func(*corev1.LimitRangeItem)) []corev1.LimitRange {
		item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
		change(&item)
		return ranges(item)
	}
	const (
		forbidden = `pods "nb-0" is forbidden: `
		invalid   = `Pod "nb-0" is invalid: spec.containers[0].resources.requests: Invalid value: "2": `
		cannot    = "the pod cannot be created: "
		unknown   = cannot + "a LimitRange of the namespace forbids it: "
		known     = cannot + `LimitRange "sizes" of the namespace forbids it: `
	)
	for name, tc := range map[string]struct {
		note, want string
		ranges     []corev1.LimitRange
		err        error
	}{
		"a maximum": {forbidden + "maximum cpu usage per Container is 1, but limit is 4", known + "maximum cpu usage per Container is 1, but limit is 4: change resources",
			container(func(i *corev1.LimitRangeItem) { i.Max = list("cpu", "1") }), nil},
		"a maximum without a limit": {forbidden + "maximum memory usage per Pod is 1Gi.  No limit is specified", known + "maximum memory usage per Pod is 1Gi. No limit is specified: change resources",
			ranges(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("memory", "1Gi")}), nil},
		"several": {forbidden + "[maximum cpu usage per Container is 1, but limit is 4, minimum memory usage per Container is 1Gi, but request is 1Mi]",
			known + "maximum cpu usage per Container is 1, but limit is 4, minimum memory usage per Container is 1Gi, but request is 1Mi: change resources",
			container(func(i *corev1.LimitRangeItem) { i.Max = list("cpu", "1") }), nil},
		"a minimum": {forbidden + "minimum cpu usage per Container is 100m, but request is 50m", known + "minimum cpu usage per Container is 100m, but request is 50m: change resources",
			container(func(i *corev1.LimitRangeItem) { i.Min = list("cpu", "100m") }), nil},
		"a ratio": {forbidden + "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000", known + "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000: change resources",
			container(func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = list("memory", "2") }), nil},
		"another amount": {forbidden + "maximum cpu usage per Container is 1, but limit is 4", unknown + "maximum cpu usage per Container is 1, but limit is 4: change resources",
			container(func(i *corev1.LimitRangeItem) { i.Max, i.Min = list("cpu", "2"), list("cpu", "1") }), nil},
		"they cannot be read": {forbidden + "maximum cpu usage per Container is 1, but limit is 4", unknown + "maximum cpu usage per Container is 1, but limit is 4: change resources",
			container(func(i *corev1.LimitRangeItem) { i.Max = list("cpu", "1") }), errors.New("forbidden")},
		"the limit of containers that have none": {invalid + "must be less than or equal to cpu limit of 1",
			cannot + `spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1; this is the limit that LimitRange "sizes" sets if a container has none: set a limit of cpu, or request less`,
			container(func(i *corev1.LimitRangeItem) { i.Default = list("cpu", "1") }), nil},
		"a limit of the spec": {invalid + "must be less than or equal to cpu limit of 1",
			cannot + `spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1: correct the field`,
			container(func(i *corev1.LimitRangeItem) { i.Default = list("cpu", "500m") }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnose(Workload{Events: []Event{setEvent(10, "create Pod nb-0 in StatefulSet nb failed error: "+tc.note)}})
			d.Complete(fakeLookup{ranges: tc.ranges, rangesErr: tc.err})
			if d.Cause == nil || d.Cause.Sentence() != tc.want {
				t.Errorf("got  %+v\nwant %q", d.Cause, tc.want)
			}
		})
	}
}

// The pods that use most change while the failure is the same one: there is no Event for each.
func TestThePodsThatUseMostAreNoNewFailure(t *testing.T) {
	d := Diagnose(Workload{Events: []Event{setEvent(10, `pods "nb-0" is forbidden: exceeded quota: team, requested: cpu=1, used: cpu=1, limited: cpu=1`)}})
	before := d.Cause.Identity()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}}}
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{Used: parseAmounts("cpu=1"), Hard: parseAmounts("cpu=1")}}
	d.Complete(fakeLookup{quotas: []corev1.ResourceQuota{q}, pods: []*corev1.Pod{p}})
	if !strings.HasSuffix(d.Cause.Message, "; pods that use most: a (1)") {
		t.Fatal(d.Cause.Message)
	}
	if now := d.Cause.Identity(); now != before {
		t.Errorf("got %q, want %q", now, before)
	}
}
