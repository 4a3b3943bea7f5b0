// Package condition sets conditions and writes statuses.
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

// maxMessage is the limit of a condition's message in the API server, in bytes.
const maxMessage = 32768

// Set sets a condition. Its lastTransitionTime changes only with its status.
func Set(conditions *[]metav1.Condition, c metav1.Condition, clk clock.PassiveClock) {
	c.Message = plaintext.Cut(c.Message, maxMessage)
	c.LastTransitionTime = metav1.NewTime(clk.Now().Truncate(time.Second))
	meta.SetStatusCondition(conditions, c)
}

// UpdateStatus writes the status of an object if the object differs from before. It
// returns the error of the API server if another client has changed the object.
func UpdateStatus[T client.Object](ctx context.Context, c client.Client, before, object T) error {
	if apiequality.Semantic.DeepEqual(before, object) {
		return nil
	}
	return c.Status().Update(ctx, object)
}
