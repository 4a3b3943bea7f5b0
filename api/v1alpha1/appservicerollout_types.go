package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdateStrategyType is how the pods of an app are replaced.
//
// +kubebuilder:validation:Enum=RollingUpdate;Recreate
type UpdateStrategyType string

// Values of UpdateStrategyType.
const (
	// UpdateStrategyRollingUpdate: a few pods at a time.
	UpdateStrategyRollingUpdate UpdateStrategyType = "RollingUpdate"
	// UpdateStrategyRecreate: all pods end before new ones are created.
	UpdateStrategyRecreate UpdateStrategyType = "Recreate"
)

// UpdateStrategy determines how the pods of an app are replaced when their template changes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate is for type RollingUpdate only: remove it, or change type"
type UpdateStrategy struct {
	// type is RollingUpdate, or Recreate: all pods end before new ones are created. Use
	// Recreate if two versions of the app must not run at the same time. Default:
	// RollingUpdate.
	// +optional
	// +default="RollingUpdate"
	Type UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate limits how many pods are replaced at the same time. If unset, both of
	// its fields are 25%. If it is unset and spec.template mounts a PersistentVolumeClaim,
	// maxUnavailable is 1 and maxSurge is 0. A new pod could otherwise wait for a volume
	// that an old pod uses on another node.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate limits how many pods are replaced at the same time.
//
// +kubebuilder:validation:XValidation:rule="!(string(self.maxUnavailable) in ['0', '0%']) || !(string(self.maxSurge) in ['0', '0%'])",message="maxUnavailable and maxSurge must not both be 0: raise one of them"
type RollingUpdate struct {
	// maxUnavailable is how many pods may be missing: a number from 0 to 1,000, or a
	// percentage of size, rounded down. Default: 25%.
	// +optional
	// +default="25%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many pods may run in addition to size: a number from 0 to 1,000, or a
	// percentage of size, rounded up. Default: 25%.
	// +optional
	// +default="25%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000, or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// TopologySpread spreads the pods of an app over groups of nodes, for example zones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains is for whenUnsatisfiable DoNotSchedule only: remove it, or change whenUnsatisfiable"
type TopologySpread struct {
	// topologyKey is a label of nodes, at most 317 characters. Nodes with the same value are
	// a group, for example topology.kubernetes.io/zone or kubernetes.io/hostname.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey"`

	// maxSkew is the largest difference between the numbers of pods in two groups, from 1
	// to 1,000. Default: 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable determines what happens to a pod that would exceed maxSkew:
	// ScheduleAnyway places it as well as possible, DoNotSchedule lets it wait. Default:
	// ScheduleAnyway.
	// +optional
	// +default="ScheduleAnyway"
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`

	// minDomains is the smallest number of groups, from 1 to 1,000. While fewer groups have
	// nodes that fit, a group counts as empty. Only for DoNotSchedule. If unset, 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinDomains *int32 `json:"minDomains,omitempty"`
}

// DisruptionBudget limits how many pods may be evicted at the same time, for example when a
// node is drained. Pods that are not ready can always be evicted.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="set exactly one of minAvailable and maxUnavailable"
type DisruptionBudget struct {
	// minAvailable is how many pods must stay: a number from 0 to 1,000, or a percentage of
	// size, rounded up. With the value of size or more, no ready pod can be evicted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is how many pods may be missing: a number from 0 to 1,000, or a
	// percentage of size, rounded up. With 0, no ready pod can be evicted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}
