package secretshare

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// foreignError says that a Secret of the same name is somebody else's.
type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }

func isForeign(err error) bool {
	_, ok := errors.AsType[*foreignError](err)
	return ok
}

// blocked tells the owner of the Secret that stands in a copy's place, on the
// Secret itself, and returns what the owner of the rule is told.
func (w *work) blocked(ctx context.Context, live *corev1.Secret, want want) error {
	recorder := w.recorder(w.plan.key.Kind)
	since := live.CreationTimestamp.Time
	err := recorder.Emit(ctx, live, events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonConflict, Action: "Copy", Since: since,
		Note: fmt.Sprintf("%s is to keep a copy of Secret %s here under this name, but this Secret is not its: "+
			"it is left as it is; delete it to get the copy", w.plan.rule.Name, want.copy.Annotations[share.AnnotationSource]),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "the owner of a Secret could not be told of a conflict")
	}
	w.repeat = recorder.NextRepeat(since)
	if other := share.Named(live, share.AnnotationRule); share.RuleOf(live.Annotations) != "" {
		return &foreignError{fmt.Sprintf("Secret %s is a copy that %s made: let only one of the two put a Secret of that name here", live.Name, other)}
	}
	return &foreignError{fmt.Sprintf("Secret %s exists and is not a copy: it is left as it is; have it deleted to get the copy", live.Name)}
}
