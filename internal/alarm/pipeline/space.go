package pipeline

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const overflowText = "messages are dropped, because those that wait use up their share of the outbox: " +
	"correct receivers that accept nothing, or match fewer Events"

// spaceOf returns the tenant of an alarm's messages. The Alarms of a namespace share one.
// ClusterAlarms have one for each namespace that contains Events, because its tenant can
// write them. Events of cluster-scoped objects are in the namespace default and have a
// tenant of their own.
func spaceOf(id kube.Key, occ *alarm.Occurrence) string {
	namespace := id.Namespace
	if id.Kind == alarm.KindClusterAlarm {
		namespace = occ.Event.Namespace
		if namespace == metav1.NamespaceDefault && occ.Event.Regarding.Namespace == "" {
			namespace = ""
		}
	}
	return id.Kind + "/" + namespace + "/"
}

// admit divides entries into those that have space and those that must be dropped.
func admit(space *ledger.Ledger, entries []outbox.Entry) (admitted, refused []outbox.Entry) {
	for i := range entries {
		e := &entries[i]
		if !space.FitsMessage(e.Tenant, e.Receiver, e.Bytes()) {
			refused = append(refused, *e)
			continue
		}
		space.AddMessage(e.Tenant, e.Receiver, e.Bytes())
		admitted = append(admitted, *e)
	}
	return admitted, refused
}
