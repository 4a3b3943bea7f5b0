package enrich

import "k8s.io/apimachinery/pkg/runtime/schema"

// The rights that readable asks for.
//
// +kubebuilder:rbac:groups="",resources=pods;services;persistentvolumeclaims;persistentvolumes;replicationcontrollers,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;replicasets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get

// readable are the kinds that are looked up: those of which the role lets the
// operator read metadata. Of any other kind nothing is asked, not even whether it
// exists: who may create Events can make up as many as they like. Secrets are not
// among them, since their annotations may hold their values.
//
// Namespaces and the operator's own kinds its role lets it read for other reasons.
var readable = kinds(map[string][]string{
	"":                  {"Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ReplicationController", "Service"},
	"apps":              {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"autoscaling":       {"HorizontalPodAutoscaler"},
	"batch":             {"CronJob", "Job"},
	"bongsu.io":         {"Alarm", "AlarmReceiver", "ClusterAlarm", "ClusterAlarmReceiver"},
	"networking.k8s.io": {"Ingress"},
	"policy":            {"PodDisruptionBudget"},
})

func kinds(byGroup map[string][]string) map[schema.GroupKind]bool {
	set := map[schema.GroupKind]bool{}
	for group, names := range byGroup {
		for _, name := range names {
			set[schema.GroupKind{Group: group, Kind: name}] = true
		}
	}
	return set
}
