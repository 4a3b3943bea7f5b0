package receivers

import (
	"fmt"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Limits of the memory of compiled bodies of webhooks, in bytes.
const (
	maxNamespaceMemory = 2 << 20
	maxReceiverMemory  = 16 << 20
	// maxClusterReceiverMemory is apart, so that tenants cannot displace ClusterAlarmReceivers.
	maxClusterReceiverMemory = 16 << 20
)

// newMemory limits the memory of the bodies of one kind of receivers.
func newMemory(kind string, remove func(key kube.Key)) *reconciler.Memory {
	if kind == v1alpha1.KindClusterAlarmReceiver {
		return reconciler.NewMemory(maxClusterReceiverMemory, maxClusterReceiverMemory, remove)
	}
	return reconciler.NewMemory(maxNamespaceMemory, maxReceiverMemory, remove)
}

// claim decides whether the body of a receiver may be compiled. The result contains the
// reason if not.
func (r *Reconciler) claim(key kube.Key, object Object) status.Result {
	hook := object.ClusterSpec().Webhook
	if hook == nil || hook.Body == "" {
		r.memory.Release(key)
		return status.Result{}
	}
	decision := r.memory.Claim(key, object, match.EstimateBody(hook.Body))
	if decision == budget.Admitted {
		return status.Result{}
	}
	r.disable(key, object)
	return status.Result{Reason: v1alpha1.ReasonOverBudget, Message: overBudget(key.Kind, decision)}
}

func overBudget(kind string, decision budget.Decision) string {
	const format = "spec.webhook.body: with those of older %ss%s, it needs more than %d MiB of memory: " +
		"shorten expressions, or delete receivers"
	switch {
	case kind == v1alpha1.KindClusterAlarmReceiver:
		return fmt.Sprintf(format, v1alpha1.KindClusterAlarmReceiver, "", maxClusterReceiverMemory>>20)
	case decision == budget.OverTotal:
		return fmt.Sprintf("spec.webhook.body: those of all %ss need more than %d MiB of memory: "+
			"shorten expressions, or delete receivers", v1alpha1.KindAlarmReceiver, maxReceiverMemory>>20)
	default:
		return fmt.Sprintf(format, v1alpha1.KindAlarmReceiver, " of the namespace", maxNamespaceMemory>>20)
	}
}
