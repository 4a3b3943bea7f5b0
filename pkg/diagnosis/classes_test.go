package diagnosis

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
			d.NameClasses(func(kind string) ([]string, error) {
				if kind != "StorageClass" {
					t.Errorf("listed %s", kind)
				}
				return tc.names, tc.err
			})
			if d.Cause == nil || d.Cause.Advice != tc.want {
				t.Errorf("got %+v, want the advice %q", d.Cause, tc.want)
			}
		})
	}
	d := Diagnosis{Others: []Cause{{Message: `admission webhook "a" forbids it: StorageClass "b" does not exist in zone c`, Advice: "wait"}}}
	d.NameClasses(func(string) ([]string, error) { t.Error("listed"); return nil, nil })
}
