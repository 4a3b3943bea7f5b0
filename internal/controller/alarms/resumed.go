package alarms

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// suspendField is the name of spec.suspend in managedFields.
const suspendField = "f:suspend"

// TrimManagedFields is the cache's transform for alarms. It drops kubectl's last-applied
// annotation and managedFields, except the times of changes and which of them set spec.suspend.
func TrimManagedFields(o any) (any, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil //nolint:nilerr // a tombstone
	}
	if !slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != "" }) {
		return o, nil // do not write to an object that was trimmed before, because it may be in use
	}
	var kept []metav1.ManagedFieldsEntry
	for _, e := range object.GetManagedFields() {
		if e.Subresource != "" || e.Time == nil {
			continue
		}
		trimmed := metav1.ManagedFieldsEntry{Time: e.Time}
		if e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(suspendField)) {
			trimmed.FieldsV1 = e.FieldsV1
		}
		kept = append(kept, trimmed)
	}
	trimmed, err := kube.TrimApplied(o)
	object.SetManagedFields(kept)
	return trimmed, err
}

// resumedAt returns the time at which the alarm was resumed; zero if it never was. It decides
// the same after each restart, because it uses only what the API server stores:
//
//   - status.resumedTime is the time of an earlier call.
//   - The status says Suspended if the operator saw that. The alarm was resumed by the last
//     change of spec.suspend, or by the last change of the object if no entry owns the field.
//   - A manager that owns nothing of the spec but suspend, such as "kubectl patch", changed it
//     at the time of its entry. The operator need not have seen that it was suspended. The
//     time of a manager with other fields can be that of another change.
func resumedAt(o Object) time.Time {
	status := o.AlarmStatus()
	var resumed time.Time
	if status.ResumedTime != nil {
		resumed = status.ResumedTime.Time
	}
	var changed, suspend, suspendOnly time.Time
	for _, e := range o.GetManagedFields() {
		if e.Subresource != "" || e.Time == nil {
			continue
		}
		changed = later(changed, e.Time.Time)
		switch owns, only := ownsSuspend(e.FieldsV1); {
		case only:
			suspend, suspendOnly = later(suspend, e.Time.Time), later(suspendOnly, e.Time.Time)
		case owns:
			suspend = later(suspend, e.Time.Time)
		}
	}
	switch {
	case status.State != v1alpha1.StateSuspended:
		return later(resumed, suspendOnly)
	case suspend.IsZero():
		return later(resumed, changed)
	default:
		return later(resumed, suspend)
	}
}

// ownsSuspend reports whether the fields include spec.suspend, and no other field of the spec.
func ownsSuspend(fields *metav1.FieldsV1) (owns, only bool) {
	if fields == nil {
		return false, false
	}
	var all struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(fields.GetRawBytes(), &all) != nil {
		return false, false
	}
	_, owns = all.Spec[suspendField]
	delete(all.Spec, ".") // the spec itself
	return owns, owns && len(all.Spec) == 1
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
