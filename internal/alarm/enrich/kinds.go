package enrich

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These are the kinds that readable names.
//
// Labels and annotations of what an Event regards are matched and told of, and the cause
// that a Pod's status shows.
// +kubebuilder:rbac:groups="",resources=pods;services;persistentvolumeclaims;persistentvolumes;replicationcontrollers,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;replicasets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get
//
// Of Nodes, a trimmed cache is kept.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// readable are the kinds that are looked up, in the version that is asked for:
// those of which the role lets the operator read metadata. Whatever version an
// Event names: who may create Events can make up as many as they like, and finding
// out whether there is one would cost a request.
//
// Whoever creates an alarm must be allowed to get the same kinds:
// config/admission/alarms.yaml. Secrets are not among them, since their annotations
// may hold their values.
var readable = versions(map[schema.GroupVersion][]string{
	{Version: "v1"}:                             {"Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ReplicationController", "Service"},
	{Group: "apps", Version: "v1"}:              {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	{Group: "autoscaling", Version: "v2"}:       {"HorizontalPodAutoscaler"},
	{Group: "batch", Version: "v1"}:             {"CronJob", "Job"},
	{Group: "networking.k8s.io", Version: "v1"}: {"Ingress"},
	{Group: "policy", Version: "v1"}:            {"PodDisruptionBudget"},
})

func versions(byGroup map[schema.GroupVersion][]string) map[schema.GroupKind]schema.GroupVersionKind {
	kinds := map[schema.GroupKind]schema.GroupVersionKind{}
	for group, names := range byGroup {
		for _, name := range names {
			kind := group.WithKind(name)
			kinds[kind.GroupKind()] = kind
		}
	}
	return kinds
}

// Kinds returns the kinds that are looked up, in no particular order.
func Kinds() []schema.GroupVersionKind { return slices.Collect(maps.Values(readable)) }
