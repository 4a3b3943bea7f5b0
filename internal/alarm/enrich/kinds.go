package enrich

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// These are the same kinds as in readable.
//
// Alarms match the labels and annotations of objects. Messages show them, and the cause
// in the status of a Pod.
// +kubebuilder:rbac:groups="",resources=pods;services;persistentvolumeclaims;persistentvolumes;replicationcontrollers,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;replicasets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get
//
// The pods of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job show the cause of its
// Warnings.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
//
// Alarms use the details of Nodes, which are cached.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// readable are the kinds that the operator's role allows it to read, with the version that
// it reads. It ignores the version in Events: a tenant can invent versions, and each
// attempt to find one would cost a request.
//
// The admission policy in config/admission/alarms.yaml requires that authors of alarms
// can get the same kinds. Secrets are not included, because their annotations can contain
// their values.
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

// Kinds returns the kinds that an Enricher reads, in no particular order.
func Kinds() []schema.GroupVersionKind { return slices.Collect(maps.Values(readable)) }

// Reads reports whether an Enricher reads objects of a kind, of at least one API group.
func Reads(kind string) bool {
	for read := range readable {
		if read.Kind == kind {
			return true
		}
	}
	return false
}

// clusterScoped are the kinds in readable that have no namespace.
var clusterScoped = []string{"Node", "PersistentVolume"}

// kindOf returns the kind of a reference, with the version to read. It returns false if no
// object that the operator reads can have the reference. Tenants write references, and a
// read that can only fail would delay their occurrences forever.
func kindOf(ref alarm.Reference) (kind schema.GroupVersionKind, ok bool) {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	kind, ok = readable[group.WithKind(ref.Kind).GroupKind()]
	return kind, ok && slices.Contains(clusterScoped, ref.Kind) == (ref.Namespace == "") &&
		len(validation.IsDNS1123Subdomain(ref.Name)) == 0
}
