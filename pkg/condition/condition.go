package condition

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxConditionMessage is the limit of metav1.Condition's message.
const maxConditionMessage = 32768

// SetCondition sets a condition, and its transition time when the status or the
// reason changes: a new reason is news to whoever reads it.
func Set(conditions *[]metav1.Condition, c metav1.Condition, clk clock.PassiveClock) {
	c.Message = plaintext.Cut(c.Message, maxConditionMessage)
	old := meta.FindStatusCondition(*conditions, c.Type)
	if old != nil && old.Status == c.Status && old.Reason == c.Reason {
		c.LastTransitionTime = old.LastTransitionTime
	} else {
		c.LastTransitionTime = metav1.NewTime(clk.Now().Truncate(time.Second))
	}
	if old != nil {
		*old = c
		return
	}
	*conditions = append(*conditions, c)
}

// UpdateStatus writes the status of object if it differs from before's, and does
// nothing otherwise. The write fails on a conflict, so that a decision made on an
// old state is made again.
func UpdateStatus[T client.Object](ctx context.Context, c client.Client, before, object T) error {
	if apiequality.Semantic.DeepEqual(before, object) {
		return nil
	}
	return c.Status().Update(ctx, object)
}
