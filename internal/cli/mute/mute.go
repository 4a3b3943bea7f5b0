// Package mute mutes an alarm until a time, and ends such a mute.
package mute

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	client.Object
	AlarmSpec() *v1alpha1.AlarmSpec
	AlarmStatus() *v1alpha1.AlarmStatus
}

// Target is an alarm that was named on the command line.
type Target struct {
	Kind   string
	Object Object
}

// Parse returns the alarm that NAME, Alarm/NAME or ClusterAlarm/NAME names. The namespace is
// that of an Alarm.
func Parse(text, namespace string) (Target, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		kind, name = alarm.KindAlarm, text
	}
	meta := metav1.ObjectMeta{Name: name}
	switch {
	case name == "" || strings.Contains(name, "/"):
	case strings.EqualFold(kind, alarm.KindAlarm):
		meta.Namespace = namespace
		return Target{alarm.KindAlarm, &v1alpha1.Alarm{ObjectMeta: meta}}, nil
	case strings.EqualFold(kind, alarm.KindClusterAlarm):
		return Target{alarm.KindClusterAlarm, &v1alpha1.ClusterAlarm{ObjectMeta: meta}}, nil
	}
	return Target{}, fmt.Errorf("invalid alarm %q: use NAME, Alarm/NAME or ClusterAlarm/NAME", text)
}

// String returns "Alarm shop/crashes" or "ClusterAlarm nodes".
func (t Target) String() string {
	return kube.Key{Kind: t.Kind, Namespace: t.Object.GetNamespace(), Name: t.Object.GetName()}.Display()
}

// fieldOwner is the manager of the fields that the commands write. A user who applies a
// manifest without these fields keeps them.
const fieldOwner = "bongsu-alarm"

// Change reads the alarm, changes it, and writes the difference. It writes nothing if change
// returns an error. If another user wrote the alarm meanwhile, it starts again, because the list
// of acknowledgements is written as a whole.
func Change(ctx context.Context, c client.Client, t Target, change func(Object) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(t.Object), t.Object); err != nil {
			return err
		}
		before := t.Object.DeepCopyObject().(Object)
		if err := change(t.Object); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return c.Patch(ctx, t.Object, patch, client.FieldOwner(fieldOwner))
	})
}

// Set mutes an alarm from now on. A mute that still lasts keeps its begin, because the
// operator may read its occurrences again, and its reason if there is no new one. A mute that has
// not begun is an error, because an alarm has only one.
func Set(spec *v1alpha1.AlarmSpec, now time.Time, lasts time.Duration, reason string) error {
	from, until := spec.MuteTimes()
	if now.Before(from) {
		return fmt.Errorf("muted from %s until %s: unmute it first", from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	}
	if !now.Before(until) {
		spec.MuteFrom, spec.MuteReason = new(metav1.NewTime(now.Truncate(time.Second))), ""
	}
	spec.MuteUntil, spec.MuteReason = roundUp(now.Add(lasts)), cmp.Or(reason, spec.MuteReason)
	return nil
}

// ParseDuration parses a duration such as 30m, 2h, 1d or 1w. It is at least a second.
func ParseDuration(text string) (time.Duration, error) {
	lasts, err := time.ParseDuration(text)
	if err != nil {
		var long model.Duration
		if long, err = model.ParseDuration(text); err == nil {
			lasts = time.Duration(long)
		}
	}
	if err != nil || lasts < time.Second {
		return 0, fmt.Errorf("%q is no duration of a second or more: use a form like 30m, 2h, 1d or 1w", text)
	}
	return lasts, nil
}

// End ends the mute of an alarm. It reports whether there was one. muteUntil stays, so that
// occurrences of the mute that the operator reads again are not sent.
func End(spec *v1alpha1.AlarmSpec, now time.Time) bool {
	from, until := spec.MuteTimes()
	if !now.Before(until) {
		return false
	}
	spec.MuteUntil, spec.MuteReason = roundUp(now), ""
	if now.Before(from) { // it had not begun
		spec.MuteFrom, spec.MuteUntil = nil, nil
	}
	return true
}

// roundUp returns the time in whole seconds, which is the precision of the API.
func roundUp(t time.Time) *metav1.Time {
	return new(metav1.NewTime(t.Add(time.Second - 1).Truncate(time.Second)))
}
