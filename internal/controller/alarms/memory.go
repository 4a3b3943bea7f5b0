package alarms

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Limits of the memory of compiled alarms, in bytes. They also limit the time that the
// operator takes to compile all alarms at its start: an estimate of 8 MiB takes about a
// second.
const (
	maxNamespaceMemory = 8 << 20
	maxAlarmMemory     = 64 << 20
	// maxClusterAlarmMemory is apart, so that tenants' Alarms cannot displace ClusterAlarms.
	maxClusterAlarmMemory = 32 << 20
)

// newMemory limits the memory of the compiled alarms of one kind.
func newMemory(kind string, registry prometheus.Registerer, remove func(key kube.Key)) *reconciler.Memory {
	m := reconciler.NewMemory(maxNamespaceMemory, maxAlarmMemory, remove)
	if kind == alarm.KindClusterAlarm {
		m = reconciler.NewMemory(maxClusterAlarmMemory, maxClusterAlarmMemory, remove)
	}
	factory := promauto.With(registry)
	gauge := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "bongsu", Subsystem: strings.ToLower(kind), Name: name, Help: help,
		}, value)
	}
	gauge("memory_bytes", "Estimated memory of the compiled "+kind+"s, in bytes.", func() float64 {
		bytes, _ := m.Usage()
		return float64(bytes)
	})
	gauge("memory_refused", kind+"s that are not in force, because they exceed the limit of memory.", func() float64 {
		_, refused := m.Usage()
		return float64(refused)
	})
	return m
}

// claim decides whether an alarm may be compiled. The result contains the reason if not.
func (r *Reconciler) claim(key kube.Key, object Object) status.Result {
	decision := r.memory.Claim(key, object, match.EstimateMemory(object))
	if decision == budget.Admitted {
		return status.Result{}
	}
	return status.Result{Reason: v1alpha1.ReasonOverBudget, Message: overBudget(key.Kind, decision)}
}

// release removes an alarm from the pipeline, and gives its memory to others.
func (r *Reconciler) release(key kube.Key) {
	r.alarms.Delete(key.String())
	r.memory.Release(key)
}

func overBudget(kind string, decision budget.Decision) string {
	const format = "this %s and the older ones%s would need more than %d MiB of memory: " +
		"shorten expressions and templates, or delete some of them"
	switch {
	case kind == alarm.KindClusterAlarm:
		return fmt.Sprintf(format, alarm.KindClusterAlarm, "", maxClusterAlarmMemory>>20)
	case decision == budget.OverTotal:
		return fmt.Sprintf("all %ss need more than %d MiB of memory, and this namespace more than its part: "+
			"shorten expressions and templates, or delete some of them", alarm.KindAlarm, maxAlarmMemory>>20)
	default:
		return fmt.Sprintf(format, alarm.KindAlarm, " of the namespace", maxNamespaceMemory>>20)
	}
}
